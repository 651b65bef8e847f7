"""Two refunds at once of one payment at Stripe's emulator, which gives back more than was paid: what holds is ours alone."""

from __future__ import annotations

import pytest

from ledger import executing
from ledger.models import Effect
from runs.errors import ExceedsLanded
from tests.localstripe import Localstripe, localstripe, localstripe_process
from tests.makers import again as fresh
from tests.makers import assert_counters, new_run, send, tell
from tests.races.line import RUN, Line
from tests.undo import allow, approve, approved, ask, now, tamper

__all__ = ["localstripe", "localstripe_process"]
pytestmark = pytest.mark.usefixtures("known", "database")
REASON = "not_wanted"  # Stripe has words of its own for others, which its emulator does not know
HIDE = "UPDATE ledger_compensation SET state = 'withdrawn', ended_by = 'x', ended_at = now(), ended_why = 'x' WHERE id = %s"
SHOW = "UPDATE ledger_compensation SET state = 'approved', ended_by = '', ended_at = NULL, ended_why = '' WHERE id = %s"


@pytest.fixture
def paid(localstripe: Localstripe) -> Effect:
    """A payment of 100.00 EUR that has landed and may be given back, whole or in part."""
    allow(action="create_payment", provider="stripe")
    run, token = new_run()
    sent = send(run, token, provider="stripe", action="create_payment", ref="INV-1", amount=10000, currency="EUR")
    answer = localstripe.pay("INV-1", str(sent.effect.pk), amount=10000)
    assert answer.status_code == 200, answer.text
    tell(sent, "landed", external_id=answer.json()["id"])
    return fresh(sent)


def test_two_workers_and_two_refunds_of_sixty_of_one_hundred(contenders: Line, paid: Effect, localstripe: Localstripe) -> None:
    """Only a forger can bring about two approvals of more than was paid; at once, one goes out and the other is told why not."""
    first = approved(paid, 6000, reason=REASON)
    tamper(HIDE, first.pk)
    second = approved(paid, 6000, reason=REASON)
    tamper(SHOW, first.pk)
    answers = contenders.race(RUN, (paid.run_id,), lambda: executing.execute(first.pk), lambda: executing.execute(second.pk))
    refunds = localstripe.refunds()
    assert answers.count(True) == len(refunds) <= 1
    stale = [one for one in (now(first), now(second)) if one.state == "stale"]
    assert stale and "€40.00 EUR can still be given back" in stale[-1].ended_why
    assert_counters(paid.run)


def test_the_second_is_refused_with_what_is_left_as_soon_as_the_first_is_approved(
    contenders: Line, paid: Effect, localstripe: Localstripe
) -> None:
    first = approved(paid, 6000, reason=REASON)
    sent, refusal = contenders.race(RUN, (paid.run_id,), lambda: executing.execute(first.pk), lambda: ask(paid, 6000, reason=REASON))
    assert sent is True and isinstance(refusal, ExceedsLanded)
    assert "€40.00 EUR can still be given back" in refusal.detail
    (refund,) = localstripe.refunds()
    assert refund["amount"] == 6000
    rest = approve(ask(paid, 4000, reason=REASON))
    assert executing.execute(rest.pk) and now(rest).effect.state == "landed"  # type: ignore[union-attr]
    assert sorted(one["amount"] for one in localstripe.refunds()) == [4000, 6000]
