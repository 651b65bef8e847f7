"""The account: every effect in one bucket, issued at the close, issued again when something settles, never edited."""

from __future__ import annotations

import csv
import io
import uuid

import pytest
from django.db import IntegrityError

from ledger import accounts
from ledger import states as es
from ledger.models import Account, Effect
from reconciliation import webhooks
from runs import leases, lifecycle
from tests.fakes import webhook
from tests.makers import (
    WORKER,
    cancel,
    fresh,
    let_time_pass,
    look,
    new_run,
    open_cases,
    send,
    settle,
    step,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


def versions(run):
    return list(Account.objects.filter(run=run).order_by("version"))


def test_every_state_has_a_bucket():
    buckets = {state: accounts.bucket(Effect(operation_id=uuid.uuid4(), state=state)) for state in es.STATES}
    assert set(buckets.values()) == set(accounts.DRAFT_BUCKETS) - {"cleaned_up"}
    assert (buckets[es.DECLARED], buckets[es.SENDING]) == ("not_sent_yet", "in_flight")


def test_one_of_each(fake):
    """A run with an effect in every state that a closed run can have; each stands once, and the sum is the total."""
    run, token = new_run(ttl_s=600)
    told = ["landed", "refused", "pending", "unknown", "conflicted", "reversed", "withheld", "duplicated", "sending"]
    sent = {}
    for n, name in enumerate(told):
        sent[name] = send(run, token, ref=name, ordinal=n, provider="fake", begin=name != "withheld")
        if name in ("landed", "refused", "pending", "unknown"):
            tell(sent[name], name)
    tell(sent["conflicted"], "landed", amount=1, currency="EUR")
    for name in ("reversed",):
        webhooks.receive("fake", {"signature": "good"}, webhook(name, sent[name].effect.pk))
        webhooks.process_due()
    draft = accounts.draft(fresh(run))
    assert (draft["final"], draft["version"]) == (False, 0)
    assert sum(len(draft[name]) for name in accounts.DRAFT_BUCKETS) == draft["totals"]["effects_total"] == len(told)
    assert {line["business_ref"] for line in draft["in_flight"]} == {"sending", "duplicated"}
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    account = accounts.latest(fresh(run))
    assert {name: {line["business_ref"] for line in account[name]} for name in accounts.BUCKETS} == {
        "stopped": {"withheld"},
        "landed": {"landed"},
        "undone": {"reversed"},
        "cleaned_up": set(),
        "did_not_happen": {"refused"},
        "unknown": {"pending", "unknown", "conflicted", "duplicated", "sending"},
    }
    assert account["totals"]["effects_total"] == len(told)
    assert (account["version"], account["final"]) == (1, False)


def test_late_settlement_issues_a_new_version_and_edits_none(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    tell(sent, "unknown")
    lifecycle.finish(WORKER, run.pk, token, "failed")
    first = versions(run)[0].body
    look(11)
    look(11)
    assert fresh(run).status == "failed_reconciled"
    assert [v.version for v in versions(run)] == [1, 2]
    assert versions(run)[0].body == first
    assert (versions(run)[0].unknown, versions(run)[1].did_not_happen, versions(run)[1].final) == (1, 1, True)


def test_a_case_of_a_closed_run_is_in_its_account(fake):
    fake.promise(lookup="none")
    run, token = new_run()
    tell(send(run, token, provider="fake"), "unknown")
    lifecycle.finish(WORKER, run.pk, token, "failed")
    sweep()
    assert fresh(run).status == "failed_unresolved"
    settle(open_cases()[0], "happened")
    assert (fresh(run).status, versions(run)[-1].final, versions(run)[-1].landed) == ("failed_reconciled", True, 1)


def test_the_database_refuses_one_that_does_not_add_up():
    run, token = new_run()
    lifecycle.finish(WORKER, run.pk, token, "completed")
    values = dict.fromkeys(accounts.BUCKETS, 0)
    with pytest.raises(IntegrityError, match="account_adds_up"):
        Account(run=run, version=2, final=True, effects_total=1, body={}, **values).save()


def test_as_csv_it_is_safe_and_complete():
    run, token = new_run()
    tell(send(run, token, ref="=HYPERLINK(1)"), "landed", external_id="@SUM(1)")
    lifecycle.finish(WORKER, run.pk, token, "completed")
    rows = list(csv.DictReader(io.StringIO(accounts.as_csv(accounts.latest(fresh(run))))))
    assert len(rows) == 1
    assert rows[0]["bucket"] == "landed"
    assert rows[0]["amount_minor"] == "12500"
    assert not rows[0]["business_ref"].startswith("=")
    assert not rows[0]["external_id"].startswith("@")


def test_steps_are_counted():
    run, token = new_run()
    step(run, token, "a")
    step(run, token, "b", kind="model_call")
    cancel(run)
    let_time_pass(31)
    sweep()
    account = accounts.latest(fresh(run))
    assert account["steps"]["stopped"] == 2


def test_before_or_after_the_cancel_is_told_by_our_own_positions():
    run, token = new_run()
    early = send(run, token, ref="a")
    late = send(run, token, ref="b", ordinal=1)
    tell(early, "landed")
    cancel(run)
    tell(late, "landed")
    leases.stopped(WORKER, run.pk, token)
    lines = {line["business_ref"]: line for line in accounts.latest(fresh(run))["landed"]}
    assert lines["a"]["confirmed_relative_to_cancel"] == "before"
    assert lines["b"]["confirmed_relative_to_cancel"] == "after"
