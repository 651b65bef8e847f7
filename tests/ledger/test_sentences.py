"""The exact wording of every outcome, as a truth table. These sentences are what people act on: a changed word is a changed product."""

from datetime import UTC, datetime, timedelta

import pytest

from ledger.sentences import EffectFacts, detail, sentence, short
from ledger.vocabulary import STATES
from runs.sentences import HeaderFacts, already_closed_sentence, header_sentence
from runs.wording import Lead, Ref, plain

T0 = datetime(2026, 3, 2, 14, 2, 5, tzinfo=UTC)
T1 = T0 + timedelta(seconds=1)
T2 = T0 + timedelta(seconds=2)
T3 = T0 + timedelta(seconds=50)


def facts(state: str, **more) -> EffectFacts:
    base = {"action_words": "purchase order", "provider_name": "Acme", "reference": "PO-1042", "sent_at": T0}
    return EffectFacts(state=state, **{**base, **more})


TABLE = {
    "not sent": (
        facts("withheld", sent_at=None, cancel_at=T2, cancel_seq=9),
        "Not sent. This purchase order was stopped before it left us. Nothing reached Acme. There is nothing to undo.",
    ),
    "closed before it was sent": (
        facts("withheld", sent_at=None, why_withheld="closed"),
        "Not sent. This purchase order had not left us when its run closed, and will not any more."
        " Nothing reached Acme. There is nothing to undo.",
    ),
    "declared": (facts("declared"), "Not sent yet. This purchase order is planned. Nothing of it has left us."),
    "in flight": (
        facts("sending"),
        "In flight. We sent this purchase order to Acme at 14:02:05 UTC and are waiting for the answer.",
    ),
    "in flight, cancelling, where no undo can be asked for": (
        facts("sending", cancel_at=T2),
        "In flight. We had already sent this purchase order to Acme at 14:02:05 UTC when the cancel was accepted at"
        " 14:02:07 UTC. It can't be called back. We are waiting for the answer and will start nothing new."
        " If it lands, it stays in effect until somebody undoes it with Acme.",
    ),
    "in flight, cancelling": (
        facts("sending", cancel_at=T2, can_ask_undo=True),
        "In flight. We had already sent this purchase order to Acme at 14:02:05 UTC when the cancel was accepted at"
        " 14:02:07 UTC. It can't be called back. We are waiting for the answer and will start nothing new."
        " If it lands, you can ask for it to be undone.",
    ),
    "landed": (
        facts("landed", answered_at=T1, how_we_know="sender"),
        "Landed. Acme confirmed this purchase order at 14:02:06 UTC. It is in effect now."
        " We know it from the sender's answer.",
    ),
    "landed before": (
        facts("landed", relative="before", answered_at=T1, cancel_at=T2, how_we_know="sender"),
        "Landed before the cancel. Acme confirmed this purchase order at 14:02:06 UTC; the cancel was accepted at"
        " 14:02:07 UTC. Cancelling did not change it. It is in effect now. We know it from the sender's answer.",
    ),
    "landed, learned after": (
        facts("landed", relative="after", answered_at=T3, cancel_at=T2, how_we_know="look", provider_time=T1),
        "Landed. We learned it after the cancel. It was sent at 14:02:05 UTC, before the cancel was accepted at"
        " 14:02:07 UTC; Acme's answer reached us at 14:02:55 UTC. It is in effect now."
        " By Acme's clock it happened at 14:02:06 UTC. We know it from a look at Acme.",
    ),
    "landed, a person found it": (
        facts(
            "landed", relative="after", answered_at=T3, cancel_at=T2, how_we_know="person", known_by="Kim",
            evidence_text="provider dashboard, SO-77",
        ),
        "Landed. We learned it after the cancel. It was sent at 14:02:05 UTC, before the cancel was accepted at"
        " 14:02:07 UTC; Kim found at 14:02:55 UTC: it happened. It is in effect now."
        " Evidence: provider dashboard, SO-77.",
    ),
    "landed for another amount": (
        facts(
            "landed", answered_at=T1, how_we_know="webhook", amount_text="£42.50 GBP", landed_amount_text="£40.00 GBP"
        ),
        "Landed. Acme confirmed this purchase order at 14:02:06 UTC. It is in effect now."
        " It landed for £40.00 GBP, not £42.50 GBP. We know it from a webhook of Acme.",
    ),
    "left in place": (
        facts("landed", answered_at=T1, how_we_know="sender", left_in_place_by="Kim"),
        "Landed. Acme confirmed this purchase order at 14:02:06 UTC. It is in effect now."
        " We know it from the sender's answer. Left in place by Kim.",
    ),
    "unknown": (
        facts("unknown", looks_done=1, looks_planned=7, next_look_at=T3),
        "We don't know yet. We sent this purchase order at 14:02:05 UTC and got no clear answer. It may or may not have"
        " happened. We are asking Acme with reference PO-1042: check 2 of 7, next at 14:02:55 UTC."
        " Don't repeat it by hand — it could happen twice.",
    ),
    "ambiguous": (
        facts("ambiguous", looks_done=7, waiting_s=3600, never_stopped_worker="w-7"),
        "A person must find out. We sent this purchase order at 14:02:05 UTC. After 7 checks over 1 h, Acme has not told"
        " us whether it happened, and worker w-7 was never confirmed stopped. Look it up by reference PO-1042 and record"
        " what you find. Until then this run stays unresolved.",
    ),
    "ambiguous, nothing to ask": (
        facts("ambiguous"),
        "A person must find out. We sent this purchase order at 14:02:05 UTC. Acme can't be asked, so nothing has told"
        " us whether it happened. Look it up by reference PO-1042 and record what you find."
        " Until then this run stays unresolved.",
    ),
    "ambiguous, before any check": (
        facts("ambiguous", looks_planned=6),
        "A person must find out. We sent this purchase order at 14:02:05 UTC. Acme has not told us yet whether it happened."
        " Look it up by reference PO-1042 and record what you find. Until then this run stays unresolved.",
    ),
    "unknowable": (
        facts("unknown", unknowable=True),
        "It can't be known. We sent this purchase order at 14:02:05 UTC. Two people found that nobody can tell whether it"
        " happened. It stays unknown in the account and its reference stays taken.",
    ),
    "refused": (
        facts("refused", provider_message="Credit limit reached.", how_we_know="sender"),
        'Acme refused it: "Credit limit reached". Nothing happened. We know it from the sender\'s answer.',
    ),
    "absent by looks": (
        facts("absent", looks_done=2, how_we_know="look"),
        "Proved not to have happened: its sender had stopped, and 2 looks at Acme found nothing of it."
        " It can't happen any more.",
    ),
    "absent by the sender": (
        facts("absent", how_we_know="sender"),
        "Proved not to have happened: its sender reported that nothing left. It can't happen any more.",
    ),
    "absent by a person": (
        facts("absent", how_we_know="person", known_by="Kim", answered_at=T3, evidence_text="statement of March"),
        "Proved not to have happened: Kim found at 14:02:55 UTC that it did not happen. It can't happen any more."
        " Evidence: statement of March.",
    ),
    "pending": (
        facts("pending", final_by=T3, how_we_know="sender"),
        "Acme accepted it and decides by 14:02:55 UTC. We know it from the sender's answer.",
    ),
    "conflicted": (
        facts("conflicted", conflict=(("The sender's answer", "refused"), ("a webhook", "landed"))),
        "The sender's answer says refused, a webhook says landed. A person must decide. Nothing is repeated meanwhile.",
    ),
    "duplicated": (
        facts("duplicated", found_refs=("SO-1", "SO-2"), how_we_know="look"),
        "Found 2 times at Acme: SO-1, SO-2. We know it from a look at Acme.",
    ),
    "reversed": (
        facts("reversed", answered_at=T3, how_we_know="webhook"),
        "Undone by Acme. This purchase order had landed; Acme undid it at 14:02:55 UTC. It is not in effect now."
        " We know it from a webhook of Acme.",
    ),
    "undo asked": (
        facts("landed", undo="undo_waiting", undo_reference="C-7", amount_text="£42.50 GBP"),
        "Asked to undo purchase order (£42.50 GBP). Someone else must approve it. Request C-7."
        " It is in effect until then.",
    ),
    "undone": (
        facts("landed", undo="undone", undo_reference="RF-1", undo_at=T3, undo_visible_days=5),
        "Undone. Acme confirmed RF-1 at 14:02:55 UTC. Customers may see it in 5 days.",
    ),
    "undo failed": (
        facts("landed", undo="undo_failed", undo_message="already shipped"),
        'The undo did not work: Acme said "already shipped". The original purchase order is still in effect.',
    ),
    "cleaned up": (
        facts("landed", undo="cleaned_up", answered_at=T1, undo_at=T3, how_we_know="sender"),
        "Removed by cleanup. This purchase order had landed at 14:02:06 UTC; the run's own clean-up removed it at"
        " 14:02:55 UTC. We know it from the sender's answer.",
    ),
}  # fmt: skip


@pytest.mark.parametrize(("given", "expected"), TABLE.values(), ids=TABLE)
def test_exact_wording(given, expected):
    assert plain(sentence(given)) == expected


def test_every_state_has_a_sentence_and_a_short_line():
    assert {given.state for given, _ in TABLE.values()} == set(STATES)
    for state in STATES:
        assert plain(sentence(EffectFacts(state=state)))
        assert short(EffectFacts(state=state))


@pytest.mark.parametrize("state", STATES)
@pytest.mark.parametrize("how", ["sender", "look", "webhook", "person", None])
@pytest.mark.parametrize("relative", ["before", "after", None])
def test_no_sentence_says_successfully_or_offers_a_retry_or_leaves_a_gap(state, how, relative):
    told = plain(sentence(facts(state, how_we_know=how, relative=relative, known_by="Kim", cancel_at=T2, answered_at=T3)))
    assert not any(word in told.lower() for word in ("success", "retry", "try again", "none", "canceled", "{", "  ", ".."))


OUTCOMES = ("landed", "refused", "absent", "pending", "duplicated", "reversed")


@pytest.mark.parametrize("state", OUTCOMES)
def test_every_outcome_tells_how_we_know(state):
    told = {
        how: plain(sentence(facts(state, how_we_know=how, known_by="Kim", answered_at=T3, looks_done=2)))
        for how in ("sender", "look", "webhook", "person")
    }
    assert len(set(told.values())) == 4
    assert "sender" in told["sender"]
    assert "look" in told["look"]
    assert "webhook" in told["webhook"]
    assert "Kim found at 14:02:55 UTC" in told["person"]


def test_the_eight_situations_are_told_apart():
    told = [plain(sentence(TABLE[name][0])) for name in (
        "not sent", "in flight, cancelling", "landed before", "landed, learned after", "unknown", "ambiguous",
    )]  # fmt: skip
    told.append(plain(already_closed_sentence("R-1", "completed", T1, T2, "order SO-7", ("purchase order PO-1042",))))
    told.append(plain(header_sentence(HeaderFacts("terminated", "R-1", 3, asked_by="Kim", closed_at=T2, reason="stuck"))))
    assert len(set(told)) == 8
    assert told[6] == (
        "Not cancelled: this run had already finished. R-1 completed at 14:02:06 UTC, 1 s before your cancel at"
        " 14:02:07 UTC. Nothing was stopped. Result: order SO-7. 1 action took effect: purchase order PO-1042."
    )


def test_the_detail_names_the_record_and_what_comes_next():
    assert plain(detail(facts("withheld", cancel_at=T2, cancel_seq=9, why_withheld="not_sent"))) == (
        "Stopped at 14:02:07 UTC (record 9). Its sender reported that nothing left."
    )
    assert plain(detail(facts("sending", answer_wait_s=12))) == (
        "Waiting up to 12 s more, then we check with Acme using reference PO-1042."
    )
    assert detail(facts("landed")) == []


def test_parts_keep_what_a_page_marks_up():
    parts = sentence(TABLE["unknown"][0])
    assert Lead("We don't know yet.") in parts and Ref("PO-1042") in parts and T0 in parts
    assert [type(part) for part in parts if part == "PO-1042"] == [Ref]


def test_the_day_is_said_when_moments_lie_on_different_days():
    later = T0 + timedelta(days=3)
    told = plain(sentence(facts("landed", relative="after", cancel_at=T2, answered_at=later, how_we_know="look")))
    assert "2 Mar 2026 14:02:05 UTC" in told and "5 Mar 2026 14:02:05 UTC" in told
