"""Two sweeps at once, as when a message of the clock is delivered twice: what one opens, the other finds."""

from __future__ import annotations

from functools import partial

from django.db import transaction

from ledger import outcomes
from reconciliation import ceilings, health, integrity
from reconciliation.models import Discrepancy
from tests.makers import again, let_time_pass, new_run, open_cases, send, tell
from tests.races.line import Line

NO_CASES = "LOCK TABLE reconciliation_case IN SHARE MODE"
NO_DISCREPANCIES = "LOCK TABLE reconciliation_discrepancy IN SHARE MODE"
DAY_S = 86_400


def test_two_effects_of_one_outage_open_one_case(contenders: Line, fake) -> None:
    sent = []
    for reference in ("PO-1", "PO-2"):
        run, token = new_run()
        sent.append(send(run, token, ref=reference, provider="fake"))
        tell(sent[-1], "unknown")
    health.not_reached("fake", "connection refused", denied=False)
    let_time_pass(2 * DAY_S)

    def reach_the_ceiling(operation_id) -> None:
        with transaction.atomic(durable=True):
            ceilings._pass_ceiling(outcomes.lock(operation_id))

    contenders.race(NO_CASES, (), *[partial(reach_the_ceiling, one.effect.pk) for one in sent])
    assert [case.kind for case in open_cases()] == ["provider_down"]
    assert {again(one).state for one in sent} == {"unknown"}


def test_two_checks_of_the_records_find_a_mistake_once(contenders: Line, owner_connection) -> None:
    run, _ = new_run()
    owner_connection.execute("UPDATE runs_run SET landed = 7 WHERE id = %s", (run.pk,))
    contenders.race(NO_DISCREPANCIES, (), *[partial(integrity.check, [run.pk])] * 2)
    assert [one.run_id for one in Discrepancy.objects.all()] == [run.pk]
    owner_connection.execute("UPDATE runs_run SET landed = 0 WHERE id = %s", (run.pk,))
