"""What a run's header says in each status, word for word."""

from datetime import UTC, datetime, timedelta

import pytest

from runs import sentences, states
from runs.sentences import HeaderFacts, header_sentence
from runs.wording import plain

T = datetime(2026, 3, 2, 14, 2, 7, tzinfo=UTC)

TABLE = [
    (HeaderFacts("scheduled"), "Nothing of it is acting. It waits for a worker to claim it."),
    (HeaderFacts("scheduled", wake_at=T), "Nothing of it is acting. It goes on at 14:02:07 UTC."),
    (HeaderFacts("running", holder="w-7"), "Worker w-7 is acting for it. Nothing is in flight."),
    (HeaderFacts("writing", holder="w-7", in_flight=1), "Worker w-7 is acting for it. 1 action in flight."),
    (HeaderFacts("awaiting_approval"), "It stands still until an approver decides."),
    (
        HeaderFacts("awaiting_evidence", actions=2, unsettled=("E-1",)),
        "It stands still until we know what happened: 1 of 2 actions is not settled: E-1.",
    ),
    (
        HeaderFacts("cancelling", asked_by="Kim", asked_at=T, worker_pending=True, in_flight=1, children_open=2),
        "Cancelling. Kim asked at 14:02:07 UTC. Nothing new can start. Waiting for: worker to confirm, 1 action in flight, 2 child runs.",
    ),
    (
        HeaderFacts("failing", error="no stock", cleanups_open=1),
        'It failed. Error: "no stock". Nothing new can start. Waiting for: 1 clean-up step.',
    ),
    (
        HeaderFacts("failing", error='Supplier refused it: "no stock".', cleanups_open=1),
        'It failed. Error: “Supplier refused it: "no stock"”. Nothing new can start. Waiting for: 1 clean-up step.',
    ),
    (HeaderFacts("cancelled", actions=4), "Stopped. All 4 actions are accounted for."),
    (HeaderFacts("cancelled", actions=0), "Stopped. It had sent nothing."),
    (
        HeaderFacts("cancelled_pending", actions=4, unsettled=("E-1", "E-2")),
        "Nothing new can start. 2 of 4 actions are not settled: E-1, E-2.",
    ),
    (
        HeaderFacts("cancelled_unresolved", actions=4, unsettled=("E-1",)),
        "Nothing new can start. 1 of 4 actions is not settled: E-1. A person must find out.",
    ),
    (
        HeaderFacts("cancelled_reconciled", actions=4),
        "Stopped. All 4 actions are accounted for. Some were unknown for a while; they are settled now.",
    ),
    (
        HeaderFacts("failed_pending", actions=3, unsettled=("E-1", "E-2")),
        "It failed, and 2 of 3 actions are not settled: E-1, E-2.",
    ),
    (
        HeaderFacts("failed_pending", actions=1, unsettled=("E-1",)),
        "It failed, and its one action is not settled: E-1.",
    ),
    (
        HeaderFacts("cancelled_unresolved", actions=2, unsettled=("E-1", "E-2")),
        "Nothing new can start. None of its 2 actions is settled: E-1, E-2. A person must find out.",
    ),
    (HeaderFacts("completed", actions=2), "Finished. All 2 actions are accounted for."),
    (
        HeaderFacts("terminated", "R-1", 6, asked_by="Kim", closed_at=T, reason="hung", landed=2, unknown=1, never_sent=3),
        'Terminated by Kim at 14:02:07 UTC. Reason: "hung". We stopped giving R-1 work and refuse anything it still'
        " tries. Its clean-up steps did not run. Terminating undid nothing: 2 actions had landed and stay in effect;"
        " 1 is unknown and is being checked (a person is asked if that fails); 3 were never sent.",
    ),
]


@pytest.mark.parametrize(("facts", "expected"), TABLE, ids=[facts.status for facts, _ in TABLE])
def test_exact_wording(facts, expected):
    assert plain(header_sentence(facts)) == expected


@pytest.mark.parametrize("status", states.STATUSES)
def test_every_status_has_a_sentence_that_claims_no_success(status):
    told = plain(header_sentence(HeaderFacts(status, ref="R-1")))
    assert told and not any(word in told for word in ("success", "None", "  "))


@pytest.mark.parametrize("status", ["cancelling", "cancelled"])
def test_a_worker_that_never_answered_stays_on_the_page_for_ever(status):
    facts = HeaderFacts(status, actions=1, quiet_at=T, quiet_basis="presumed", holder="w-7", holder_seen_at=T)
    assert plain(header_sentence(facts)).endswith(
        "Worker w-7 has not answered since 14:02:07 UTC. Anything it starts is refused; it may still be computing."
    )


def test_only_what_is_true_is_called_cancelled():
    assert "cancelled" not in plain(header_sentence(HeaderFacts("cancelling", asked_by="Kim", asked_at=T))).lower()


def test_answers_to_a_cancel():
    assert plain(sentences.repeat_sentence("Kim", T)) == ("Already cancelling — Kim asked at 14:02:07 UTC. Your click changed nothing.")
    assert plain(sentences.busy_sentence("another change")) == ("Not recorded: the run is locked by another change. Nothing was stopped.")
    assert plain(sentences.not_allowed_sentence("R-1", "Support")) == (
        "You can see this run but not cancel it. Support can. Run reference: R-1."
    )
    assert plain(sentences.quiet_sentence(1.2)) == "Quiet after 1.2 s. Nothing of this run is acting any more."
    assert plain(sentences.changed_while_reading_sentence(("E-1",))) == "While you were reading, 1 more action was sent: E-1."
    closed = sentences.already_closed_sentence("R-1", "completed", T, T + timedelta(seconds=70), "", ("SO-1", "SO-2"))
    assert plain(closed).endswith("Result: none. 2 actions took effect: SO-1, SO-2.")
