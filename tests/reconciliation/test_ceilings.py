"""Whatever looks say, nothing stays open without a person for ever; and during an outage a person is not asked fifty times."""

from __future__ import annotations

import pytest

from ledger.models import Effect
from reconciliation import cases, ceilings, findings, looks
from reconciliation.evidence import Finding
from reconciliation.models import Case, ProviderHealth
from runs import leases
from runs.models import Event
from tests.fakes import DENIED, DOWN, EMPTY, found
from tests.makers import (
    OTHER,
    SUPPORT,
    WORKER,
    again,
    cancel,
    fresh,
    let_time_pass,
    look,
    new_run,
    open_cases,
    send,
    step,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")
HOUR, DAY = 3600, 86400


def unknown(ref="PO-1042", verdict="unknown"):
    run, token = new_run()
    sent = send(run, token, ref=ref, provider="fake")
    tell(sent, verdict)
    return run, sent


def alerts(kind="provider.down"):
    return Event.objects.filter(run=None, kind=kind).count()


def pass_hours(times, each=HOUR):
    for _ in range(times):
        let_time_pass(each)
        sweep()


def test_no_lookup_goes_to_a_person_at_once(fake):
    fake.promise(lookup="none")
    run, sent = unknown()
    sweep()
    (case,) = open_cases()
    assert (case.kind, again(sent).state, fresh(run).status) == ("no_lookup", "ambiguous", "running")
    assert fake.asked == []


def test_an_hour_without_an_answer_is_enough(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    let_time_pass(31)
    leases.expire_due()
    for _ in range(11):
        let_time_pass(300)
        sweep()
    assert not open_cases()
    let_time_pass(300)
    sweep()
    assert [case.kind for case in open_cases()] == ["not_found_sender_alive"]
    assert again(sent).state == "ambiguous"


def test_answer_by_passes_and_silence_means_unknown(fake):
    run, token = new_run(ttl_s=600)
    sent = send(run, token, provider="fake", answer_within_s=20)
    let_time_pass(19)
    sweep()
    assert again(sent).state == "sending"
    let_time_pass(2)
    sweep()
    assert again(sent).state == "unknown"
    assert fresh(run).in_flight == 0


def test_pending_ends_at_final_by(fake):
    fake.promise(final_within_s=2 * DAY)
    fake.answer = lambda sought: found(sought, "pending")
    run, sent = unknown(verdict="pending")
    pass_hours(2, DAY - 60)
    assert (again(sent).state, open_cases()) == ("pending", [])
    let_time_pass(200)
    pass_hours(3, 7)
    assert [case.kind for case in open_cases()] == ["ceiling"]


def test_what_is_unknown_does_not_wait_until_its_provider_decides(fake):
    fake.promise(final_within_s=2 * DAY)
    _, sent = unknown()
    effect = again(sent)
    assert (effect.person_after - effect.unknown_since).total_seconds() == HOUR and effect.final_by is None


def test_looks_that_nobody_takes_put_off_no_ceiling(fake):
    unknown()
    let_time_pass(HOUR + 1)
    ceilings.pass_ceilings()
    assert len(open_cases()) == 1


@pytest.mark.parametrize("final_within_s", [None, 2 * HOUR])
def test_an_answer_of_pending_for_ever_puts_off_no_ceiling(fake, final_within_s):
    fake.promise(final_within_s=final_within_s)
    fake.answer = lambda sought: found(sought, "pending")
    run, sent = unknown()
    pass_hours(5)
    assert len(open_cases()) == 1
    events = fresh(run).version
    pass_hours(3)
    assert fresh(run).version == events, "and it does not go to and fro"
    fake.answer = found
    findings.check_now(SUPPORT, sent.effect.pk)
    sweep()
    assert again(sent).state == "landed"
    assert not open_cases()


@pytest.mark.timeout(400)
def test_fifty_effects_and_one_outage(fake):
    """One alert, no case before the ceiling, one grouped case after it, and all settle when it is back."""
    fake.answer = DOWN
    runs = [unknown(f"PO-{n}")[0] for n in range(50)]
    let_time_pass(10)
    sweep()
    assert alerts() == 1
    for _ in range(4):
        let_time_pass(5 * HOUR)
        sweep()
    assert alerts() == 1
    assert not open_cases()
    assert Effect.objects.filter(state="unknown").count() == 50
    for _ in range(2):
        let_time_pass(2.1 * HOUR)
        sweep()
    (case,) = open_cases()
    assert (case.kind, case.provider, case.run, case.effect) == ("provider_down", "fake", None, None)
    assert {fresh(run).needs_person for run in runs} == {0}
    fake.answer = found
    let_time_pass(335)
    (first, *_) = looks.take_due(limit=1)
    looks.look(first)
    ceilings.pass_ceilings()
    ceilings.open_wanted()
    assert [c.kind for c in open_cases()] == ["provider_down"], "not one case each because the sweep was faster than the looks"
    let_time_pass(6)
    sweep()
    sweep()
    assert Effect.objects.filter(state="landed").count() == 50
    assert not open_cases()
    assert alerts("provider.up") == 1
    assert ProviderHealth.objects.get(pk="fake").unreachable_since is None
    assert {fresh(run).settlement for run in runs} == {"reconciled"}


def test_an_outage_at_the_ceiling_of_one_that_then_finds_nothing(fake):
    """Back, but nothing is found and its sender never stopped: now it is a person's."""
    fake.answer = DOWN
    run, token = new_run()
    send(run, token, provider="fake")
    let_time_pass(31)
    leases.expire_due()
    pass_hours(25)
    assert [c.kind for c in open_cases()] == ["provider_down"]
    fake.answer = EMPTY
    for _ in range(8):
        let_time_pass(100)
        sweep()
    assert [c.kind for c in open_cases()] == ["not_found_sender_alive"]


def test_when_an_outage_ends_what_stood_in_its_case_stands_nowhere_for_no_moment(fake):
    """Some of them go on failing: at every moment they stand in the grouped case or in one of their own."""
    fake.answer = DOWN
    for ref in ("PO-1", "PO-2", "PO-3"):
        unknown(ref)
    pass_hours(25)
    assert [c.kind for c in open_cases()] == ["provider_down"]
    fake.answers["PO-2"] = found
    for _ in range(30):
        let_time_pass(15)
        sweep()
        cased = {case.effect_id for case in open_cases()}
        grouped = None in cased
        for effect in Effect.objects.filter(state__in=["unknown", "ambiguous"]):
            assert grouped or effect.pk in cased, effect.business_ref
    assert Effect.objects.get(business_ref="PO-2").state == "landed"
    fake.answer = found
    for _ in range(4):
        let_time_pass(100)
        sweep()
    assert not open_cases() and not Effect.objects.exclude(state="landed").exists()


def test_a_provider_that_is_down_is_only_probed(fake):
    """However many effects wait for it: one look at a time, so that no sweep waits for its timeouts."""
    fake.answer = DOWN
    for n in range(5):
        unknown(f"PO-{n}")
    look(6)
    assert alerts() == 1
    asked = len(fake.asked)
    let_time_pass(3600)
    assert [len(looks.take_due()) for _ in range(3)] == [1, 0, 0]
    let_time_pass(6)
    fake.answer = found
    assert look() == ["landed"]
    assert len(fake.asked) == asked + 1
    assert sorted(look(6)) == ["landed"] * 3, "and the fourth is leased to a reconciler that died"
    let_time_pass(60)
    assert look() == ["landed"]


def test_being_denied_access_alerts_at_once(fake):
    fake.answer = DENIED
    unknown()
    look(6)
    assert alerts() == 1
    assert Event.objects.get(run=None, kind="provider.down").data["denied"] is True
    let_time_pass(600)
    look()
    assert alerts() == 1


def test_denied_for_one_object_while_it_answers_about_others_flips_no_alert(fake):
    """Our access to that object is refused, not to the provider; a person is asked about it in its time."""
    fake.answers["PO-1"] = DENIED
    unknown("PO-1")
    look(6)
    assert alerts() == 1
    for n in range(2, 6):
        fake.answers[f"PO-{n}"] = found
        unknown(f"PO-{n}")
        for _ in range(3):
            look(100)
    assert alerts() == alerts("provider.up") == 1
    pass_hours(2)
    assert [case.kind for case in open_cases()] == ["ceiling"]
    fake.answers["PO-9"] = DENIED
    unknown("PO-9")
    look(6)
    assert alerts() == 2, "denied for another one too: that is news"


def test_a_short_failure_alerts_nobody(fake):
    fake.answer = DOWN
    unknown()
    look(6)
    fake.answer = found
    look(60)
    assert alerts() == alerts("provider.up") == 0


def test_a_second_outage_is_a_second_alert(fake):
    for outage in (1, 2):
        fake.answer = DENIED
        unknown(f"PO-{outage}")
        look(6)
        assert alerts() == outage
        fake.answer = found
        look(400)
        assert alerts("provider.up") == outage


def test_an_outage_of_one_provider_is_no_excuse_for_another(fake):
    fake.promise(lookup="none")
    fake.answer = DOWN
    unknown()
    sweep()
    assert [case.kind for case in open_cases()] == ["no_lookup"]


@pytest.mark.parametrize(("deadline_s", "quiet_for_s", "late_after_s"), [(None, 890, 20), (3600, 3500, 110), (60, 50, 20), (5, 890, 20)])
def test_a_worker_has_as_long_to_stop_as_its_step_said(fake, deadline_s, quiet_for_s, late_after_s):
    """Its step's deadline, or 15 minutes; a deadline that had passed before the cancel is none."""
    run, token = new_run(ttl_s=600)
    step(run, token, "think", deadline_s=deadline_s)

    def go_on_for(seconds: float) -> None:
        while seconds > 0:
            let_time_pass(min(seconds, 500))
            leases.heartbeat(WORKER, run.pk, token)
            seconds -= 500
        sweep()

    if deadline_s == 5:
        go_on_for(10)
    cancel(run)
    go_on_for(quiet_for_s)
    assert not open_cases()
    go_on_for(late_after_s)
    assert [case.kind for case in open_cases()] == ["does_not_stop"]


def test_an_effect_that_cannot_be_known_stays_out_of_the_queue(fake):
    """Also when it was a contradiction: the sweep does not ask again what two people have answered."""
    run, token = new_run()
    sent = send(run, token, provider="fake")
    tell(sent, "refused")
    tell(sent, "landed")
    sweep()
    (case,) = open_cases()
    findings.settle(SUPPORT, case.pk, Finding("cannot_be_known", notes="both logs are gone"))
    findings.confirm(OTHER, case.pk, True)
    sweep()
    sweep()
    assert not open_cases()
    run = fresh(run)
    assert (run.unknowable, run.in_doubt, run.settlement) == (1, 0, "unresolved")
    assert again(sent).holds_action or again(sent).state == "conflicted"


def test_every_open_effect_is_settled_or_has_a_case_within_its_ceiling(fake):
    """L1, in the small: whatever the provider says, after two days nothing waits for nobody."""
    answers = [DOWN, found, lambda s: found(s, "pending"), lambda s: found(s, amount=1), DENIED]
    for n in range(10):
        run, token = new_run(ttl_s=600)
        sent = send(run, token, ref=f"PO-{n}", provider="fake")
        fake.answers[f"PO-{n}"] = answers[n % 5]
        if n < 5:
            tell(sent, "unknown")
    pass_hours(20, 3 * HOUR)
    pass_hours(6, 7)
    waiting = Effect.objects.filter(state__in=["sending", "pending", "unknown", "ambiguous", "conflicted"])
    grouped = Case.objects.filter(kind="provider_down").exclude(state="settled").exists()
    for effect in waiting:
        assert grouped or cases.Case.objects.filter(effect=effect).exclude(state="settled").exists(), (effect.state, effect.business_ref)
