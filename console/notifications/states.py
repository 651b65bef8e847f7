"""What can be told, and how far telling it has come."""

from __future__ import annotations

from datetime import timedelta

NEEDS_PERSON = "needs_person"
NEEDS_APPROVAL = "needs_approval"
UNDO_FAILED = "undo_failed"
LANDED_AFTER_CANCEL = "landed_after_cancel"
PROVIDER_DOWN = "provider_down"
RECORDS_DISAGREE = "records_disagree"
ENDPOINT_DISABLED = "endpoint_disabled"
TEST = "test"

KINDS: dict[str, str] = {
    NEEDS_PERSON: "Needs a person",
    NEEDS_APPROVAL: "Needs approval",
    UNDO_FAILED: "Undo failed",
    LANDED_AFTER_CANCEL: "Landed after the cancel",
    PROVIDER_DOWN: "A provider is down",
    RECORDS_DISAGREE: "Records disagree",
}
"""What an endpoint may choose; that another endpoint was disabled, and a test, nobody chooses."""

WORDS = KINDS | {ENDPOINT_DISABLED: "A notification endpoint was disabled", TEST: "Test"}

WEBHOOK, MAIL = "webhook", "mail"
MEDIA = (WEBHOOK, MAIL)

PENDING, DELIVERED, GIVEN_UP, DROPPED = "pending", "delivered", "given_up", "dropped"
STATES = (PENDING, DELIVERED, GIVEN_UP, DROPPED)

SECRETS_MAX = 2  # the new one and the old one, while a receiver is being moved over
BACKOFF_S = (5, 30, 120, 600, 1800, 3600, 3 * 3600, 6 * 3600, 12 * 3600, 24 * 3600, 24 * 3600)
"""Seconds from one try to the next: after the last, about three days in, a message is given up."""
PAUSE_S_MAX = 60  # how long at most one failed try keeps other messages from the same endpoint
DISABLE_AFTER = timedelta(days=3)
FAILURES_MIN = 10  # and no fewer failures than this: one lost message in a quiet week is no long failure
