"""Effects of cleanup: under the item's own lease and budget, only what the provider lists, and never an undo of money."""

from __future__ import annotations

import uuid
from types import MappingProxyType

import pytest

from ledger import accounts, intents, policies
from ledger.models import Effect
from runs import cleaning, leases, preview
from runs.models import Run
from tests.makers import (
    ADMIN,
    WORKER,
    again,
    assert_counters,
    cancel,
    fresh,
    intent,
    let_time_pass,
    look,
    new_run,
    nonce,
    open_cases,
    refused,
    send,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def provider(fake):
    fake.promise(cleanup_ok=["release_hold", "refund"], cleanable=["place_hold"])
    fake.capability = fake.capability.with_settings({"compensable": MappingProxyType({"charge": "refund"})})
    yield fake
    assert_counters()


def hold(run: Run, token: str, verdict: str = "landed", **values):
    """The work effect that a cleanup may remove."""
    wanted = {"provider": "fake", "action": "place_hold", "ref": "H-7", "amount": None, "currency": ""} | values
    sent = send(run, token, **wanted)
    tell(sent, verdict)
    return sent


def cancelled(*keys: str, cleans=None, verdict: str = "landed", **values):
    """A quiet cancelled run with the hold and items registered; (run, its effect)."""
    run, token = new_run()
    sent = hold(run, token, verdict, **values)
    for order, key in enumerate(keys or ("release",)):
        cleaning.register(WORKER, run.pk, token, key, "h", {}, order, cleans if cleans is not None else sent.effect.pk)
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    return run, sent


def take(holder: str = "c-1", **values):
    item, grant = cleaning.claim(WORKER, holder, ["h"], **values)
    return item, grant.token


def release(run: Run, token: str, key: str = "release", mine: str = "", **values):
    wanted = {
        "step": key,
        "role": "cleanup",
        "provider": "fake",
        "action": "release_hold",
        "ref": "H-7",
        "amount": None,
        "currency": "",
        "request": {},
    }
    return intents.declare(WORKER, run.pk, token, mine or nonce(), intent(**(wanted | values)))


def test_what_was_tidied_is_cleaned_up_in_the_account():
    run, sent = cancelled()
    item, token = take()
    tidied = release(run, token)
    assert (tidied.kind, tidied.effect.role, tidied.effect.acts_on_id) == ("sending", "cleanup", sent.effect.pk)
    with refused("effects_in_flight"):
        cleaning.finish(WORKER, item.pk, token, "done")
    tell(tidied, "landed", external_id="X-1")
    cleaning.finish(WORKER, item.pk, token, "done")
    run = fresh(run)
    assert (run.state, run.landed, run.effects_total) == ("cancelled", 1, 1)
    account = accounts.latest(run)
    (line,) = account["cleaned_up"]
    assert (line["ref"], [one["ref"] for one in line["acted_on_by"]]) == (sent.effect.ref, [tidied.effect.ref])
    assert account["totals"]["cleaned_up"] == 1 and account["landed"] == []


def test_no_lease_but_the_items_own():
    run, token = new_run()
    hold(run, token)
    cleaning.register(WORKER, run.pk, token, "release", "h", {})
    with refused("lease_lost"):
        release(run, token)
    cancel(run)
    with refused("lease_lost"):
        release(run, token)
    leases.stopped(WORKER, run.pk, token)
    item, mine = take()
    with refused("lease_lost"):
        release(run, token)
    with refused("lease_lost"):
        release(run, mine, key="another item")
    let_time_pass(31)
    with refused("lease_lost"):
        release(run, mine)
    assert Effect.objects.filter(role="cleanup").count() == 0


def test_work_cannot_use_the_lease_of_a_cleanup():
    run, _ = cancelled()
    _, token = take()
    with refused("cancelled"):
        intents.declare(WORKER, run.pk, token, nonce(), intent())


@pytest.mark.parametrize(
    "values",
    [
        {"amount": 100, "currency": "EUR"},
        {"action": "delete_everything"},
        {"action": "refund"},
    ],
    ids=["money", "not listed", "a compensation"],
)
def test_what_needs_a_compensation_is_refused(values):
    run, _ = cancelled()
    _, token = take()
    with refused("needs_compensation"):
        release(run, token, **values)
    assert Effect.objects.filter(role="cleanup").count() == 0
    assert fresh(run).cleanup_calls == 1, "a refusal costs no call"


def test_a_landed_effect_that_is_not_listed_cleanable_stays():
    run, sent = cancelled(action="charge", amount=500, currency="EUR", ref="CH-1")
    _, token = take()
    with refused("needs_compensation") as told:
        release(run, token)
    assert told.value.facts["effect"] == sent.effect.ref


def test_nothing_of_another_run_is_removed():
    other, other_token = new_run("w-other")
    theirs = hold(other, other_token, ref="H-9", step="theirs")
    run, token = new_run()
    with refused("invalid"):
        cleaning.register(WORKER, run.pk, token, "release", "h", {}, 0, theirs.effect.pk)
    with refused("invalid"):
        cleaning.register(WORKER, run.pk, token, "release", "h", {}, 0, uuid.uuid4())
    leases.gone(WORKER, "w-1", "exit 0")
    leases.gone(WORKER, "w-other", "exit 0")


def test_an_action_that_needs_an_approval_is_no_cleanup():
    policies.require_approval(ADMIN, "fake", "release_hold", "always")
    run, _ = cancelled()
    _, token = take()
    with refused("needs_compensation"):
        release(run, token)


def test_three_calls_and_no_fourth(owner_connection):
    run, token = new_run()
    cleaning.register(WORKER, run.pk, token, "release", "h", {})
    owner_connection.execute("UPDATE runs_run SET cleanup_calls_max = 3 WHERE id = %s", (run.pk,))
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    item, mine = take()
    for number in range(3):
        tell(release(run, mine, ref=f"H-{number}", ordinal=number), "landed", external_id=f"X-{number}")
    with refused("cancelled") as told:
        release(run, mine, ref="H-9", ordinal=9)
    assert "its budget of 3 calls was used up" in told.value.detail
    assert (Effect.objects.filter(role="cleanup").count(), fresh(run).cleanup_calls) == (3, 3)
    cleaning.finish(WORKER, item.pk, mine, "done")
    assert fresh(run).state == "cancelled"


def test_calls_of_one_item_are_taken_from_the_next(owner_connection):
    run, token = new_run()
    for order, key in enumerate(("one", "two")):
        cleaning.register(WORKER, run.pk, token, key, "h", {}, order)
    owner_connection.execute("UPDATE runs_run SET cleanup_calls_max = 2 WHERE id = %s", (run.pk,))
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    item, mine = take()
    for number in range(2):
        tell(release(run, mine, key="one", ref=f"H-{number}", ordinal=number), "landed", external_id=f"X-{number}")
    cleaning.finish(WORKER, item.pk, mine, "done")
    assert cleaning.claim(WORKER, "c-2", ["h"]) is None
    sweep()
    assert (fresh(run).state, [case.kind for case in open_cases()]) == ("cancelled", ["left_behind"])


def test_each_operation_is_begun_at_most_once():
    run, _ = cancelled()
    _, token = take()
    mine = nonce()
    first = release(run, token, mine=mine)
    assert release(run, token, mine=mine).attempt.pk == first.attempt.pk, "a lost answer asked again"
    with refused("in_doubt"):
        release(run, token)
    with refused("payload_mismatch"):
        release(run, token, request={"other": 1})
    tell(first, "landed", external_id="X-1")
    assert release(run, token).kind == "known"
    assert fresh(run).cleanup_calls == 1


def test_a_cleaner_that_dies_while_sending_leaves_an_unknown_that_is_looked_up(provider):
    run, sent = cancelled("release", "more")
    item, token = take("c-dead", ttl_s=5)
    tidied = release(run, token)
    let_time_pass(6)
    sweep()
    assert again(tidied).state == "unknown"
    assert (fresh(run).state, fresh(run).in_doubt) == ("cancelling", 1)
    with refused("in_doubt"):
        release(*_next(run), key="more", ref="H-7")
    let_time_pass(60)
    sweep()
    assert tell(tidied, "landed", external_id="X-1") == "applied"
    sweep()
    assert (fresh(run).state, accounts.latest(fresh(run))["totals"]["cleaned_up"]) == ("cancelled", 1)


def _next(run: Run) -> tuple[Run, str]:
    return run, take("c-2", ttl_s=5)[1]


def test_terminating_while_a_cleanup_sends():
    run, _ = cancelled()
    _, token = take()
    tidied = release(run, token)
    seen = preview.preview(fresh(run))
    assert [line["ref"] for line in seen["in_flight"]] == [tidied.effect.ref]
    cancel(run, actor=ADMIN, mode="terminate", reason="hangs", plan_digest=seen["plan_digest"])
    assert (fresh(run).status, again(tidied).state) == ("terminated_pending", "unknown")
    tell(tidied, "landed", external_id="X-1")
    sweep()
    assert fresh(run).status == "terminated_unresolved", "what was left behind is a person's"
    assert look() == []
