"""Everything the domain refuses, as one family of exceptions that the API renders as RFC 9457 problem documents.

The message of an exception is a sentence on which a person can act; `facts` are what goes with it.
"""

from __future__ import annotations

from typing import Any


class Problem(Exception):
    """A refusal with a stable `code`, an HTTP `status`, a sentence (`detail`) and JSON `facts`."""

    code = "invalid"
    status = 400
    title = "The request was not understood"

    def __init__(self, detail: str, **facts: Any) -> None:
        super().__init__(detail)
        self.detail = detail
        self.facts = facts

    def body(self) -> dict[str, Any]:
        """The problem document."""
        return {
            "type": f"urn:countermand:problem:{self.code}",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
            "code": self.code,
            **self.facts,
        }


class Invalid(Problem):
    """A field is wrong; `field` names it."""


class NotAllowed(Problem):
    code, status, title = "not_allowed", 403, "Not allowed"


class ReauthenticationRequired(Problem):
    """Allowed, but this person last proved who they are too long ago. Nothing was done; after proving it again, ask again."""

    code, status, title = "reauthentication_required", 403, "Prove again that it is you"


class NotFound(Problem):
    code, status, title = "not_found", 404, "Not found"


class Busy(Problem):
    code, status, title = "busy", 503, "Not recorded: the run is locked"


class Conflict(Problem):
    status = 409


class Cancelled(Conflict):
    code, title = "cancelled", "The run was cancelled"


class AlreadyClosed(Conflict):
    code, title = "already_closed", "The run had already finished"


class LeaseLost(Conflict):
    code, title = "lease_lost", "This lease is over"


class EffectsInFlight(Conflict):
    code, title = "effects_in_flight", "Something of this run is still in flight"


class ClientKeyReused(Conflict):
    code, title = "client_key_reused", "This client_key was used for another run"


class DigestChanged(Conflict):
    code, title = "digest_changed", "The step was started with another input"


class PlanChanged(Conflict):
    code, title = "plan_changed", "Something changed while you were reading"


class InDoubt(Conflict):
    code, title = "in_doubt", "The same business action is under way or unknown"


class AlreadyLanded(Conflict):
    code, title = "already_landed", "The same business action has already landed"


class PayloadMismatch(Conflict):
    code, title = "payload_mismatch", "The same operation with another payload"


class ProviderUnknown(Conflict):
    code, title = "provider_unknown", "No such provider"


class AbsentAsk(Conflict):
    code, title = "absent_ask", "A person decides whether this is sent again"


class OccurrenceNotOpen(Conflict):
    code, title = "occurrence_not_open", "Nobody has opened this occurrence"


class ApprovalRequired(Conflict):
    code, title = "approval_required", "This action needs an approval"


class ApprovalMismatch(Conflict):
    code, title = "approval_mismatch", "The approval does not allow this"


class NeedsCompensation(Conflict):
    code, title = "needs_compensation", "Cleanup may not do this; ask for a compensation"


class NotEligible(Conflict):
    code, title = "not_eligible", "The rules do not allow this to be undone"


class ExceedsLanded(Conflict):
    code, title = "exceeds_landed", "That is more than can still be undone"


class ClaimedByOther(Conflict):
    code, title = "claimed_by_other", "Someone else has claimed this"


class EvidenceRequired(Conflict):
    code, status, title = "evidence_required", 422, "Evidence is required"


class AlreadyDecided(Conflict):
    code, title = "already_decided", "This has already been decided"


class SamePerson(Conflict):
    code, title = "same_person", "Someone else must do this"


class Expired(Conflict):
    code, title = "expired", "Too late"


class Stale(Conflict):
    code, title = "stale", "It changed meanwhile"
