"""One approval, one undo: approvers at once, executions at once, and two parts that are too much together."""

from __future__ import annotations

import pytest

from ledger import compensations, executing
from runs.errors import AlreadyDecided, ExceedsLanded, NotEligible
from tests.makers import APPROVER, APPROVER2, OTHER, SUPPORT, assert_counters
from tests.races.line import RUN
from tests.undo import approve, approved, ask, landed, now, tamper, wish

pytestmark = pytest.mark.usefixtures("refunding")


def test_ten_executions_of_one_approval_send_once(contenders, refunding):
    run, effect = landed()
    request = approved(effect)
    sent = contenders.race(RUN, (run.pk,), *[lambda: executing.execute(request.pk)] * 10)
    assert sorted(sent) == [False] * 9 + [True]
    assert len(refunding.undone) == 1
    assert now(request).state == "executed"
    assert_counters(run)


def test_two_approvers_at_once_are_one_decision(contenders):
    run, effect = landed()
    request = ask(effect)
    first, second = contenders.race(RUN, (run.pk,), lambda: approve(request, APPROVER), lambda: approve(request, APPROVER2))
    assert first.state == "approved"
    assert isinstance(second, AlreadyDecided)
    assert second.detail == "Already approved by Amy Approver. Your decision changed nothing."
    assert now(request).decisions.count() == 1


def test_a_double_click_is_one_decision(contenders):
    run, effect = landed(amount=600000)
    request = ask(effect, 600000)
    first, second = contenders.race(RUN, (run.pk,), *[lambda: approve(request, APPROVER)] * 2)
    assert first.state == "requested" and isinstance(second, AlreadyDecided)
    assert now(request).decisions.count() == 1


def test_two_people_ask_at_once(contenders):
    run, effect = landed()
    acts = [lambda who=who: compensations.request(who, effect.pk, wish(6000)) for who in (SUPPORT, OTHER)]
    first, second = contenders.race(RUN, (run.pk,), *acts)
    assert first[1] is True and isinstance(second, NotEligible)


def test_an_approval_and_a_withdrawal_at_once(contenders, refunding):
    run, effect = landed()
    request = approved(effect)
    took_back, sent = contenders.race(
        RUN, (run.pk,), lambda: compensations.withdraw(SUPPORT, request.pk, "no"), lambda: executing.execute(request.pk)
    )
    assert (took_back.state, sent, refunding.undone) == ("withdrawn", False, [])


def test_two_parts_of_sixty_of_one_hundred_at_once(contenders, refunding):
    """Two workers carry out two approvals that only a forger could have brought about: one goes out, the other is told what is left."""
    run, effect = landed()
    first = approved(effect, 6000)
    hide = "UPDATE ledger_compensation SET state = 'withdrawn', ended_by = 'x', ended_at = now(), ended_why = 'x' WHERE id = %s"
    show = "UPDATE ledger_compensation SET state = 'approved', ended_by = '', ended_at = NULL, ended_why = '' WHERE id = %s"
    tamper(hide, first.pk)
    second = ask(effect, 6000)
    tamper(show, first.pk)
    (told,) = contenders.race(RUN, (run.pk,), lambda: approve(second))
    assert told.code == "stale" and "€40.00 EUR can still be given back" in told.detail
    tamper(hide, first.pk)
    third = approved(effect, 6000)
    tamper(show, first.pk)
    answers = contenders.race(RUN, (run.pk,), lambda: executing.execute(first.pk), lambda: executing.execute(third.pk))
    assert answers.count(True) <= 1 and len(refunding.undone) == answers.count(True)
    assert "stale" in {now(first).state, now(third).state}
    assert_counters(run)


def test_asking_while_the_first_part_goes_out(contenders, refunding):
    """The order of real life: the second part is asked for when the first is approved, and is refused with what is left."""
    run, effect = landed()
    first = approved(effect, 6000)
    sent, refusal = contenders.race(
        RUN, (run.pk,), lambda: executing.execute(first.pk), lambda: compensations.request(OTHER, effect.pk, wish(6000))
    )
    assert sent is True and isinstance(refusal, ExceedsLanded)
    assert "€40.00 EUR can still be given back" in refusal.detail
    assert len(refunding.undone) == 1
