"""The plain way of an outcome makes the very rows that the long way makes."""

import datetime as dt
import json

import pytest
from django.db import connection

from ledger import intents, outcomes, plain
from runs.actors import MACHINE_SCOPES, Actor
from tests.makers import WORKER, again, cancel, kinds, let_time_pass, new_run, nonce, refused, send, tell

pytestmark = pytest.mark.usefixtures("database")
TABLES = {
    "runs_run": "id",
    "ledger_effect": "run_id",
    "ledger_attempt": "run_id",
    "runs_event": "run_id",
    "ledger_evidence": "effect_id",
}
OWN = (
    "id",
    "ref",
    "tx",
    "token",
    "nonce",
    "lease_token",
    "root_id",
    "operation_id",
    "effect_id",
    "run_id",
    "business_ref",
    "request_digest",
    "subject",
)


def rows(run, effect):
    found = {}
    for table, key in TABLES.items():
        with connection.cursor() as cursor:
            value = effect.pk if key == "effect_id" else run.pk
            cursor.execute(f"SELECT * FROM {table} WHERE {key} = %s ORDER BY 1", [value])
            names = [c.name for c in cursor.description]
            found[table] = [{n: _blurred(v) for n, v in zip(names, row, strict=True) if n not in OWN} for row in cursor.fetchall()]
    return found


def _blurred(value):
    """Ids and moments differ from run to run; that they are there does not."""
    if isinstance(value, dt.datetime):
        return "moment"
    if isinstance(value, str) and value.startswith("{"):
        return {k: v for k, v in json.loads(value).items() if k != "operation_id"}
    return value


@pytest.mark.parametrize(
    "report",
    [
        ("landed", "S-1", 12500, "EUR", {"id": "S-1"}),
        ("landed", "S-1", None, "", None),
        ("refused", "", None, "", {"detail": "closed account"}),
    ],
)
def test_plain_and_long_way_agree(monkeypatch, report):
    def settled():
        run, token = new_run()
        effect = send(run, token, ref=f"PO-{run.ref}").effect
        used, after = outcomes.report(WORKER, effect.pk, 1, *report[:4], response=report[4])
        assert (used, after.state) == ("applied", report[0])
        stored = again(effect)
        assert (after.ref, after.run_id, after.version, after.external_id) == (stored.ref, run.pk, stored.version, stored.external_id)
        return rows(run, effect)

    taken = []
    real = plain.settle
    monkeypatch.setattr(plain, "settle", lambda *a: taken.append(real(*a)) or taken[-1])
    short = settled()
    assert taken[0] is not None, "the plain way was not taken"
    monkeypatch.setattr(plain, "settle", lambda *a: None)
    long = settled()
    for table, found in short.items():
        assert found == long[table], table


@pytest.mark.parametrize("odd", [{"amount": 1, "currency": "EUR"}, {"currency": "USD", "amount": 12500}])
def test_what_does_not_match_takes_the_long_way(odd):
    run, token = new_run()
    effect = send(run, token).effect
    assert outcomes.report(WORKER, effect.pk, 1, "landed", "S-1", **odd)[0] == "conflicts"


def cancelled(run, token, effect):
    cancel(run)


def in_doubt(run, token, effect):
    tell(effect, "unknown")


def silent(run, token, effect):
    let_time_pass(100)
    assert outcomes.time_out_due() == 1


def sent_a_second_time(run, token, effect):
    tell(effect, "not_sent")
    intents.begin(WORKER, effect.pk, token, nonce())


@pytest.mark.parametrize("happens", [cancelled, in_doubt, silent, sent_a_second_time])
def test_only_the_first_word_about_the_only_attempt_of_a_running_run_is_plain(monkeypatch, happens):
    run, token = new_run(ttl_s=300)
    effect = send(run, token).effect
    happens(run, token, effect)
    taken = []
    real = plain.settle
    monkeypatch.setattr(plain, "settle", lambda *a: taken.append(real(*a)) or taken[-1])
    tell(effect, "landed")
    assert taken == [None] and again(effect).state == "landed"


def test_a_machine_that_does_not_work_for_the_agent_reports_nothing():
    run, token = new_run()
    effect = send(run, token).effect
    before = kinds(run)
    with refused("not_allowed"):
        outcomes.report(Actor("machine", "m", "of refunds", "api", MACHINE_SCOPES, frozenset({"refunds"})), effect.pk, 1, "landed", "S-1")
    assert again(effect).state == "sending" and kinds(run) == before
