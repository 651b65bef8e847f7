"""Doing it again on purpose: opened by a person with a reason, never while anything is in doubt, and spent once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ledger import intents, occurrences
from ledger.models import Effect, Occurrence
from runs import actors
from runs.models import Event
from tests.fakes import found
from tests.makers import (
    SUPPORT,
    WORKER,
    again,
    intent,
    look,
    new_run,
    nonce,
    open_cases,
    refused,
    send,
    settle,
    step,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")
OPENER = replace(SUPPORT, scopes=SUPPORT.scopes | {actors.OCCURRENCE_OPEN})


def open_it(actor=OPENER, ref="PO-1042", reason="The first delivery was stolen.", provider="fake"):
    return occurrences.open_next(actor, provider, "create_order", ref, reason)


def landed(ref="PO-1042"):
    sent = send(*new_run(), provider="fake", ref=ref)
    tell(sent, "landed")
    return sent


def test_the_first_declare_spends_it_and_the_provider_can_tell_the_two_apart(fake):
    first = landed()
    opened = open_it()
    assert (opened.number, opened.opened_name) == (2, "Sam Support")
    event = Event.objects.get(kind="occurrence.opened")
    assert (event.run, event.actor_name, event.data["reason"]) == (None, "Sam Support", "The first delivery was stolen.")
    run, token = new_run("w-2")
    second = send(run, token, provider="fake", occurrence=2)
    assert (second.kind, second.effect.provider_reference) == ("sending", "PO-1042#2")
    assert Occurrence.objects.get().spent_on_id == second.effect.pk
    told = [Event.objects.get(kind="effect.sending", run=sent.effect.run_id).data.get("occurrence") for sent in (first, second)]
    assert told == [None, 2], "the timeline says that it was done once more, and only then"
    other, other_token = new_run("w-3")
    with refused("occurrence_not_open") as told:
        send(other, other_token, provider="fake", occurrence=2)
    assert told.value.detail.startswith("Occurrence 2 of PO-1042 was used by ") and second.effect.ref in told.value.detail
    tell(second, "unknown")
    fake.answer = found
    look(6)
    assert (fake.asked[-1].provider_reference, again(second).state) == ("PO-1042#2", "landed")


def test_the_same_call_again_is_a_replay_and_spends_nothing_twice(fake):
    landed()
    open_it()
    run, token = new_run("w-2")
    mine = nonce()
    first = send(run, token, mine, provider="fake", occurrence=2)
    same = intents.declare(WORKER, run.pk, token, mine, intent(provider="fake", occurrence=2))
    assert (same.kind, same.attempt.pk) == ("sending", first.attempt.pk)
    tell(first, "landed")
    assert intents.declare(WORKER, run.pk, token, nonce(), intent(provider="fake", occurrence=2)).kind == "known"
    assert open_it().number == 3


def test_nobody_has_opened_it(fake):
    landed()
    run, token = new_run("w-2")
    with refused("occurrence_not_open") as told:
        send(run, token, provider="fake", occurrence=2)
    assert told.value.facts["occurrence"] == 2 and "Nobody has opened" in told.value.detail
    assert Effect.objects.count() == 1


@pytest.mark.parametrize("state", ["declared", "sending", "pending", "unknown"])
def test_nothing_is_opened_while_anything_is_in_doubt(fake, state):
    sent = send(*new_run(), provider="fake", begin=state != "declared")
    if state in ("pending", "unknown"):
        tell(sent, state)
    with refused("in_doubt") as told:
        open_it()
    assert told.value.facts["effect"] == sent.effect.ref
    assert not Occurrence.objects.exists()


def test_not_while_the_second_one_is_in_doubt_either(fake):
    landed()
    open_it()
    second = send(*new_run("w-2"), provider="fake", occurrence=2)
    with refused("in_doubt"):
        open_it()
    tell(second, "landed")
    assert open_it().number == 3


def test_doubt_that_came_after_the_opening_bars_it_too(fake):
    sent = landed()
    open_it()
    tell(sent, "refused")
    assert again(sent).state == "conflicted"
    run, token = new_run("w-2")
    with refused("in_doubt"):
        send(run, token, provider="fake", occurrence=2)
    assert Occurrence.objects.get().spent_on is None, "and it is there when the doubt is over"


def test_what_never_happened_needs_no_occurrence(fake):
    with refused("invalid"):
        open_it()
    tell(send(*new_run(), provider="fake"), "refused")
    with refused("invalid"):
        open_it()
    assert send(*new_run("w-2"), provider="fake").kind == "sending"


def test_what_a_person_left_unsent_can_be_done_as_a_new_one(fake):
    run, token = new_run(ttl_s=600)
    sent = send(run, token, provider="fake")
    tell(sent, "unknown")
    look(11)
    look(11)
    with refused("in_doubt"):
        open_it()
    sweep()
    settle(open_cases()[0], "leave")
    assert open_it().number == 2
    other, other_token = new_run("w-2")
    assert send(other, other_token, provider="fake", occurrence=2).kind == "sending"


def test_one_is_open_at_a_time(fake):
    landed()
    open_it()
    with refused("already_decided") as told:
        open_it()
    assert told.value.facts["occurrence"] == 2


@pytest.mark.parametrize("actor", [SUPPORT, WORKER, replace(OPENER, type="machine")])
def test_it_takes_the_right_to(fake, actor):
    landed()
    with refused("not_allowed"):
        open_it(actor)


@pytest.mark.parametrize("reason", ["", "   ", "x" * 2001])
def test_it_takes_a_reason(fake, reason):
    landed()
    with refused("invalid") as told:
        open_it(reason=reason)
    assert told.value.facts["field"] == "reason"


def test_a_reference_that_would_be_another_actions_is_not_opened(fake):
    landed()
    landed("PO-1042#2")
    with refused("invalid"):
        open_it()


def test_two_runs_want_the_same_one(fake):
    """The loser of the race is told; nothing of it stays."""
    landed()
    open_it()
    run, token = new_run("w-2")
    other, other_token = new_run("w-3")
    step(run, token)
    step(other, other_token)
    wanted = intent(provider="fake", occurrence=2)
    assert intents.declare(WORKER, run.pk, token, nonce(), wanted, begin=False).kind == "declared"
    with refused("occurrence_not_open"):
        intents.declare(WORKER, other.pk, other_token, nonce(), wanted)
