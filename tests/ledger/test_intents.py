"""Permission to send: who gets the go-ahead, who gets it again, and who never."""

from __future__ import annotations

import pytest

from ledger import absences, intents, outcomes
from ledger.models import Attempt, Effect
from ledger.operations import operation_id
from reconciliation import webhooks
from runs import cancellation, leases, steps, waiting
from runs.models import Event
from tests import fakes
from tests.makers import (
    SUPPORT,
    WORKER,
    again,
    cancel,
    claim,
    fresh,
    intent,
    kinds,
    let_time_pass,
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


def declare(run, token, mine=None, begin=True, **values):
    return intents.declare(WORKER, run.pk, token, mine or nonce(), intent(**values), begin=begin)


def proved_absent(run, token, **values):
    """Sent by a worker that is then reaped; two empty looks later it is absent."""
    sent = send(run, token, provider="fake", **values)
    leases.gone(WORKER, fresh(run).lease_holder, "killed")
    assert look(11) == ["empty"]
    assert look(11) == ["empty"]
    assert again(sent).state == "absent"
    return sent


def test_the_go_ahead_says_how_long_it_is_good():
    run, token = new_run(ttl_s=5)
    sent = send(run, token, send_within_s=60, answer_within_s=90)
    attempt = sent.attempt
    assert attempt.send_by == fresh(run).lease_expires_at, "writing begins before the lease ends"
    assert (attempt.answer_by - attempt.sent_at).total_seconds() == 90
    assert sent.effect.pk == operation_id(run.pk, "order", 0)
    assert sent.effect.idempotency_key == str(sent.effect.pk)


def test_the_same_nonce_gets_the_go_ahead_again_and_another_does_not():
    run, token = new_run()
    mine = nonce()
    sent = send(run, token, mine)
    repeated = declare(run, token, mine)
    assert (repeated.kind, repeated.attempt.pk) == ("sending", sent.attempt.pk)
    assert intents.begin(WORKER, sent.effect.pk, token, mine).attempt.pk == sent.attempt.pk
    with refused("in_doubt") as told:
        declare(run, token)
    assert told.value.facts["run"] == run.ref
    with refused("in_doubt"):
        intents.begin(WORKER, sent.effect.pk, token, nonce())
    assert Attempt.objects.count() == 1


def test_the_same_nonce_after_the_outcome_gets_the_outcome():
    run, token = new_run()
    mine = nonce()
    tell(send(run, token, mine), "landed")
    assert declare(run, token, mine).kind == "known"


def test_the_same_nonce_under_a_later_lease_gets_nothing():
    run, token = new_run()
    mine = nonce()
    send(run, token, mine)
    let_time_pass(31)
    leases.expire_due()
    with refused("lease_lost"):
        declare(run, token, mine)


@pytest.mark.parametrize("change", [{"amount": 1}, {"currency": "USD"}, {"request": {"lines": [2]}}, {"ref": "PO-9"}, {"action": "other"}])
def test_another_payload_under_the_same_operation(change):
    run, token = new_run()
    sent = send(run, token)
    with refused("payload_mismatch"):
        declare(run, token, **change)
    tell(sent, "landed")
    with refused("payload_mismatch"):
        declare(run, token, **change)
    assert Effect.objects.count() == 1


def test_declared_then_begun_then_once_only():
    run, token = new_run()
    declared = send(run, token, begin=False)
    assert (declared.kind, declared.attempt, fresh(run).status) == ("declared", None, "running")
    assert declare(run, token, begin=False).kind == "declared"
    begun = intents.begin(WORKER, declared.effect.pk, token, nonce())
    assert (begun.kind, begun.attempt.number, fresh(run).status) == ("sending", 1, "writing")
    assert again(begun).answer_by == begun.attempt.answer_by, "after it, silence means unknown"
    with refused("in_doubt"):
        intents.begin(WORKER, declared.effect.pk, token, nonce())


def test_the_answer_to_a_second_begin_is_waited_for_anew():
    """The first attempt's time does not count for the second one; since when it has been sent is what the first one began."""
    run, token = new_run(ttl_s=600)
    first = send(run, token)
    assert tell(first, "not_sent") == "applied"
    let_time_pass(20)
    second = intents.begin(WORKER, first.effect.pk, token, nonce())
    effect = again(second)
    assert effect.answer_by == second.attempt.answer_by
    assert effect.sent_at == Attempt.objects.get(effect=effect, number=1).sent_at < second.attempt.sent_at
    let_time_pass(20)
    assert outcomes.time_out_due() == 0 and again(second).state == "sending"
    let_time_pass(20)
    assert outcomes.time_out_due() == 1 and again(second).state == "unknown"


def test_a_declared_effect_is_begun_by_declaring_it_again():
    run, token = new_run()
    send(run, token, begin=False)
    mine = nonce()
    assert declare(run, token, mine).kind == "sending"
    assert declare(run, token, mine).kind == "sending"


def test_nothing_begins_outside_a_running_step():
    run, token = new_run()
    with pytest.raises(Exception, match="not running"):
        declare(run, token)
    step(run, token)
    steps.finish(WORKER, run.pk, token, "order", "done")
    with pytest.raises(Exception, match="not running"):
        declare(run, token)
    assert not Effect.objects.exists()


@pytest.mark.parametrize("verdict", ["landed", "refused"])
def test_another_worker_replays_what_is_known(verdict):
    run, token = new_run()
    sent = send(run, token)
    tell(sent, verdict)
    leases.release(WORKER, run.pk, token)
    run, token = claim("w-2")
    known = send(run, token)
    assert (known.kind, known.effect.pk, known.effect.state) == ("known", sent.effect.pk, verdict)
    assert Attempt.objects.count() == 1


def test_another_worker_waits_for_what_is_unknown():
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "unknown")
    with refused("in_doubt") as told:
        declare(run, token)
    assert told.value.facts["operation_id"] == str(sent.effect.pk)


def test_not_sent_may_be_sent_by_a_running_run(fake):
    run, token = new_run()
    sent = send(run, token)
    assert tell(sent, "not_sent") == "applied"
    assert again(sent).state == "declared"
    second = declare(run, token)
    assert (second.kind, second.attempt.number, second.effect.pk) == ("sending", 2, sent.effect.pk)
    tell(sent, "not_sent")
    assert again(sent).state == "declared", "nothing has left: nobody has to be asked"


def test_not_sent_of_a_run_that_waits_is_absent(fake):
    """Its lease is lost; the report comes late, and the action's policy decides."""
    run, token = new_run()
    sent = send(run, token, provider="fake")
    let_time_pass(31)
    leases.expire_due()
    tell(sent, "not_sent")
    assert (again(sent).state, again(sent).release) == ("absent", "asked")


@pytest.mark.parametrize("close", [False, True])
def test_not_sent_of_a_cancelled_run_is_withheld(close):
    run, token = new_run()
    sent = send(run, token)
    cancel(run)
    if close:
        let_time_pass(100)
        sweep()
        assert fresh(run).is_closed
    tell(sent, "not_sent")
    assert again(sent).state == "withheld"
    assert not again(sent).holds_action


def test_absent_by_policy_is_sent_again_under_the_same_operation(fake):
    fake.promise(after_absent="resend")
    run, token = new_run()
    first = proved_absent(run, token)
    assert (again(first).release, again(first).holds_action) == ("resend", False)
    assert fresh(run).state == "scheduled"
    run, token = claim("w-2")
    second = send(run, token, provider="fake")
    assert (second.kind, second.effect.pk, second.attempt.number) == ("sending", first.effect.pk, 2)
    assert again(first).holds_action
    tell(second, "landed")
    assert again(first).state == "landed"


def test_absent_after_the_idempotency_window_is_asked(fake):
    fake.promise(after_absent="resend", idempotency_window_s=15)
    run, token = new_run()
    first = proved_absent(run, token)
    assert again(first).release == "asked"


def test_a_release_is_good_only_while_the_window_is_open(fake):
    """Released, but begun too late: our key would no longer be honoured."""
    fake.promise(after_absent="resend", idempotency_window_s=60)
    run, token = new_run()
    first = proved_absent(run, token)
    assert again(first).release == "resend"
    let_time_pass(120)
    run, token = claim("w-2")
    step(run, token)
    with refused("absent_ask"):
        declare(run, token, provider="fake")
    other, other_token = new_run("w-3")
    step(other, other_token)
    with refused("absent_ask"):
        declare(other, other_token, provider="fake")
    sweep()
    (case,) = open_cases()
    assert case.kind == "absent_ask"
    settle(case, "send_again")
    assert declare(run, token, provider="fake").kind == "sending", "a person's word outlasts the window"


def test_absent_and_ask_waits_for_a_person(fake):
    run, token = new_run()
    first = proved_absent(run, token)
    assert fresh(run).state == "awaiting_evidence"
    sweep()
    case = open_cases()[0]
    assert case.kind == "absent_ask"
    assert fresh(run).needs_person == 1
    other, other_token = new_run("w-3")
    step(other, other_token)
    with refused("absent_ask") as told:
        declare(other, other_token, provider="fake")
    assert told.value.facts["operation_id"] == str(first.effect.pk)
    settle(case, "send_again")
    assert fresh(run).state == "scheduled"
    run, token = claim("w-2")
    second = send(run, token, provider="fake")
    assert (second.kind, second.attempt.number, second.effect.pk) == ("sending", 2, first.effect.pk)


def test_a_run_that_goes_on_working_is_told_to_wait_for_the_person(fake):
    run, token = new_run(ttl_s=600)
    sent = send(run, token, provider="fake")
    tell(sent, "unknown")
    look(11)
    look(11)
    assert (again(sent).state, fresh(run).state) == ("absent", "running")
    for _ in range(2):
        with refused("absent_ask"):
            declare(run, token, provider="fake")
    with refused("absent_ask"):
        intents.begin(WORKER, sent.effect.pk, token, nonce())


def test_absent_and_left(fake):
    run, token = new_run()
    first = proved_absent(run, token)
    sweep()
    settle(open_cases()[0], "leave")
    run, token = claim("w-2")
    known = send(run, token, provider="fake")
    assert (known.kind, known.effect.pk, known.effect.state) == ("known", first.effect.pk, "absent")


def test_left_means_left_for_every_run(fake):
    """A person said that it is not sent: no other run goes round them, and none waits for an answer that was given."""
    run, token = new_run()
    first = proved_absent(run, token)
    sweep()
    settle(open_cases()[0], "leave")
    other, other_token = new_run("w-3")
    step(other, other_token)
    with refused("already_decided") as told:
        declare(other, other_token, provider="fake")
    assert told.value.facts["effect"] == first.effect.ref
    assert not open_cases() and Effect.objects.count() == 1


def test_that_a_run_was_cancelled_does_not_decide_for_another(fake):
    """Nobody was asked: under *ask* the next run that wants it makes a person decide, under *resend* it may."""
    run, token = new_run()
    first = proved_absent(run, token)
    cancel(run)
    assert again(first).release == "unasked"
    other, other_token = new_run("w-3")
    step(other, other_token)
    with refused("absent_ask") as told:
        declare(other, other_token, provider="fake")
    assert told.value.facts["operation_id"] == str(first.effect.pk)
    waiting.suspend(WORKER, other.pk, other_token, "operation", first.effect.pk)
    sweep()
    assert fresh(other).state == "awaiting_evidence"
    (case,) = open_cases()
    assert (case.kind, case.run_id, fresh(run).status) == ("absent_ask", run.pk, "cancelled_unresolved")
    settle(case, "send_again")
    waiting.wake_due()
    assert (fresh(other).state, fresh(run).status) == ("scheduled", "cancelled_reconciled")
    other, other_token = claim("w-4")
    assert send(other, other_token, provider="fake").kind == "sending"


def test_only_what_nobody_decided_is_asked_about_after_all(fake):
    run, token = new_run()
    first = proved_absent(run, token)
    cancel(run)
    for _ in range(2):
        absences.ask(WORKER, first.effect.pk)
        assert again(first).release == "asked"
    asked = Event.objects.filter(run=run, subject=first.effect.ref, data__release="asked")
    assert [event.kind for event in asked] == ["effect.evidence"], "and that is on record, once"
    sweep()
    (case,) = open_cases()
    settle(case, "leave")
    other, other_token = new_run("w-3")
    landed = send(other, other_token, provider="fake", ref="PO-2")
    tell(landed, "landed")
    before = kinds(run), kinds(other)
    for effect in (first.effect, landed.effect):
        absences.ask(WORKER, effect.pk)
    assert (again(first).release, again(landed).release) == ("left", "")
    assert (kinds(run), kinds(other)) == before


@pytest.mark.parametrize("window_s", [7200, 60])
def test_after_a_cancel_another_run_may_send_while_policy_lets_it(fake, window_s):
    fake.promise(after_absent="resend", idempotency_window_s=window_s)
    run, token = new_run()
    proved_absent(run, token)
    cancel(run)
    let_time_pass(3600)
    other, other_token = new_run("w-3")
    step(other, other_token)
    if window_s > 3600:
        assert declare(other, other_token, provider="fake").kind == "sending"
    else:
        with refused("absent_ask"):
            declare(other, other_token, provider="fake")


def test_a_cancel_means_leave(fake):
    run, token = new_run()
    proved_absent(run, token)
    sweep()
    cancel(run)
    sweep()
    assert not open_cases()
    assert fresh(run).status == "cancelled_reconciled"


def test_another_run_does_not_repeat_what_landed():
    run, token = new_run()
    sent = send(run, token)
    other, other_token = new_run("w-2")
    step(other, other_token)
    with refused("in_doubt") as told:
        declare(other, other_token)
    assert (told.value.facts["run"], told.value.facts["operation_id"]) == (run.ref, str(sent.effect.pk))
    tell(sent, "landed")
    with refused("already_landed") as told:
        declare(other, other_token)
    assert told.value.facts["effect"] == sent.effect.ref
    assert Effect.objects.count() == 1


@pytest.mark.parametrize("state", ["declared", "sending", "pending", "unknown"])
def test_reuse_waits_while_the_holder_is_not_known(state):
    run, token = new_run()
    sent = send(run, token, begin=state != "declared")
    if state not in ("declared", "sending"):
        tell(sent, state)
    other, other_token = new_run("w-2")
    step(other, other_token)
    with refused("in_doubt"):
        declare(other, other_token, if_exists="reuse")


def test_reuse_relies_on_an_equal_outcome_and_counts_nothing():
    from ledger import accounts

    run, token = new_run()
    sent = send(run, token)
    tell(sent, "landed")
    other, other_token = new_run("w-2")
    step(other, other_token)
    relied = declare(other, other_token, if_exists="reuse")
    assert (relied.kind, relied.effect.pk) == ("relied", sent.effect.pk)
    assert declare(other, other_token, if_exists="reuse").kind == "relied"
    assert fresh(other).effects_total == 0
    assert [line["ref"] for line in accounts.draft(fresh(other))["relied_on"]] == [sent.effect.ref]
    with refused("payload_mismatch"):
        declare(other, other_token, if_exists="reuse", amount=1)


def test_refused_and_absent_let_go_of_the_action(fake):
    run, token = new_run()
    tell(send(run, token), "refused")
    other, other_token = new_run("w-2")
    assert send(other, other_token).kind == "sending"


def test_released_but_somebody_else_was_faster(fake):
    """Two runs may send an absent action again; the first that begins holds it, and the other is told by whom."""
    fake.promise(after_absent="resend")
    run, token = new_run()
    first = proved_absent(run, token)
    other, other_token = new_run("w-3")
    second = send(other, other_token, provider="fake")
    assert second.effect.pk != first.effect.pk
    run, token = claim("w-2")
    step(run, token)
    for _ in range(2):
        with refused("in_doubt") as told:
            declare(run, token, provider="fake")
        assert told.value.facts["run"] == other.ref
    with refused("in_doubt"):
        intents.begin(WORKER, first.effect.pk, token, nonce())
    tell(second, "landed")
    with refused("already_landed"):
        declare(run, token, provider="fake")
    assert again(first).state == "absent"


def test_a_late_webhook_after_absent_and_a_success_elsewhere_is_kept(fake):
    """Never an error: the first one conflicts, its case names the other, and nothing takes the action from its holder."""
    fake.promise(after_absent="resend")
    run, token = new_run()
    first = proved_absent(run, token)
    other, other_token = new_run("w-3")
    second = send(other, other_token, provider="fake")
    tell(second, "landed", external_id="S-2", amount=12500, currency="EUR")
    webhooks.receive("fake", {"signature": "good"}, fakes.webhook("landed", first.effect.pk, external_id="S-1"))
    assert webhooks.process_due() == 1
    assert (again(first).state, again(first).holds_action) == ("conflicted", False)
    assert (again(second).state, again(second).holds_action) == ("landed", True)
    sweep()
    case = open_cases()[0]
    assert case.kind == "conflicting"
    assert second.effect.ref in case.why and other.ref in case.why
    settle(case, "happened", external_id="S-1")
    assert (again(first).state, again(first).holds_action) == ("landed", False)
    assert not open_cases()


def test_the_late_report_of_the_sender_conflicts_as_well(fake):
    fake.promise(after_absent="resend")
    run, token = new_run()
    first = proved_absent(run, token)
    other, other_token = new_run("w-3")
    tell(send(other, other_token, provider="fake"), "landed", external_id="S-2")
    assert tell(first, "landed", external_id="S-1") == "conflicts"
    assert tell(first, "landed", external_id="S-1") == "agrees", "a spool delivers twice"
    assert (again(first).state, again(first).external_id) == ("conflicted", "S-1")


def test_an_absent_effect_that_happened_after_all_no_longer_asks(fake):
    """The question whether to send it again dies with the contradiction; the run is woken when a person has settled that."""
    run, token = new_run()
    first = proved_absent(run, token)
    sweep()
    assert tell(first, "landed", external_id="S-1") == "conflicts"
    sweep()
    assert [case.kind for case in open_cases()] == ["conflicting"]
    settle(open_cases()[0], "happened")
    assert fresh(run).state == "scheduled"
    run, token = claim("w-2")
    assert send(run, token, provider="fake").kind == "known"


def test_a_settled_contradiction_is_not_reopened_by_the_same_report():
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "refused")
    assert tell(sent, "landed") == "conflicts"
    sweep()
    settle(open_cases()[0], "happened")
    assert tell(sent, "landed") == "agrees"
    assert tell(sent, "refused") == "agrees"
    assert again(sent).state == "landed"


def test_what_a_person_found_absent_may_be_sent_again_though_its_sender_never_answered(fake):
    """A webhook that does not match comes while the request is out; the person who settles it ends that attempt."""
    fake.promise(after_absent="resend")
    run, token = new_run(ttl_s=600)
    sent = send(run, token, provider="fake", answer_within_s=3600)
    webhooks.receive("fake", {"signature": "good"}, fakes.webhook("landed", sent.effect.pk, amount=1, currency="EUR"))
    webhooks.process_due()
    assert again(sent).state == "conflicted"
    sweep()
    settle(open_cases()[0], "did_not_happen", sender_gone="The host was switched off.")
    assert again(sent).state == "absent"
    assert declare(run, token, provider="fake").attempt.number == 2


def test_a_cancelled_run_begins_nothing():
    run, token = new_run()
    declared = send(run, token, begin=False)
    answer = cancel(run)
    assert [line["ref"] for line in answer.request.receipt["withheld"]] == [declared.effect.ref]
    assert (again(declared).state, again(declared).holds_action) == ("withheld", False)
    for attempt in range(3):
        with refused("cancelled") as told:
            declare(run, token, ref=f"PO-{attempt}", ordinal=attempt)
        assert told.value.facts["position"] == answer.request.position
    with refused("cancelled"):
        intents.begin(WORKER, declared.effect.pk, token, nonce())
    assert fresh(run).refused_after_cancel == 4


@pytest.mark.parametrize(
    ("code", "change"),
    [
        ("invalid", {"amount": -1}),
        ("invalid", {"amount": 10**16}),
        ("invalid", {"currency": "XXQ"}),
        ("invalid", {"currency": ""}),
        ("invalid", {"amount": None}),
        ("invalid", {"send_within_s": 0}),
        ("invalid", {"answer_within_s": 10**6}),
        ("invalid", {"if_exists": "maybe"}),
        ("provider_unknown", {"provider": "nobody"}),
        ("occurrence_not_open", {"occurrence": 2}),
    ],
)
def test_what_makes_no_sense_changes_nothing(code, change):
    run, token = new_run()
    step(run, token)
    version = fresh(run).version
    with refused(code):
        declare(run, token, **change)
    with refused("invalid"):
        declare(run, token, "short")
    assert fresh(run).version == version
    assert not Effect.objects.exists()


def test_a_webhook_may_settle_it_before_the_sender_speaks(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    webhooks.receive("fake", {"signature": "good"}, fakes.webhook("landed", sent.effect.pk, amount=12500, currency="EUR"))
    webhooks.process_due()
    assert (again(sent).state, fresh(run).in_flight) == ("landed", 0)
    receipt = cancellation.request_cancel(SUPPORT, run.pk).request.receipt
    assert [line["attempt"] for line in receipt["in_flight"]] == [1], "its sender has not said that it stopped"
    assert tell(sent, "landed", amount=12500, currency="EUR") == "agrees"
