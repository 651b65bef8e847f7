"""The list of runs narrowed by who stopped them, or by a name: its pages are the rows, in the order, that looking at each run gives."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable
from typing import Any

import pytest
from django.db.models import Q

from ledger.models import Effect
from runs import listing, planning, preview, queries
from runs.actors import Actor
from runs.listing import Wanted
from runs.models import CancelRequest, Run
from runs.queries import RunFilter
from tests.makers import ADMIN, OTHER, SUPPORT, WORKER, cancel, child_of, fresh, new_run, send, tell

pytestmark = pytest.mark.usefixtures("database")

RENAMED = dataclasses.replace(SUPPORT, name="Sam Married")
NAMESAKE = dataclasses.replace(OTHER, id="u-namesake", name="SAM SUPPORT")
NAMED_LIKE_AN_ID = dataclasses.replace(OTHER, id="u-odd", name="u-support")
ROBOT = dataclasses.replace(WORKER, id="robot", name="robot", scopes=SUPPORT.scopes)
EVERYBODY = (SUPPORT, RENAMED, NAMESAKE, NAMED_LIKE_AN_ID, ROBOT, OTHER, ADMIN)


def terminate(run: Run, actor: Actor) -> None:
    cancel(run, actor=actor, mode="terminate", reason="Now.", plan_digest=preview.preview(fresh(run))["plan_digest"])


@pytest.fixture
def many() -> None:
    """Runs stopped by everybody: once, twice by the same, by two, with a child, too late, again, or never."""
    chance = random.Random(7)
    for number in range(42):
        run, token = new_run(agent=("purchase-order", "refunds")[number % 2], business_ref=f"PO-{number % 4}")
        who = EVERYBODY[number % len(EVERYBODY)]
        match number % 5:
            case 0:
                cancel(run, actor=who)
            case 1:  # it does not stop, so somebody terminates it: the same person or another
                send(run, token, ref=f"X-{number}")
                cancel(run, actor=ADMIN if number % 2 else who)
                terminate(run, ADMIN)
            case 2:
                child_of(run, token)
                cancel(run, actor=who)
                cancel(run, actor=chance.choice(EVERYBODY))  # a repeat counts for nobody
            case 3:
                terminate(run, ADMIN)
                cancel(run, actor=who)  # too late


def asked_by(actor: Actor, who: str) -> Callable[[CancelRequest], bool]:
    """Whether an accepted request is one of theirs, said once more from the words of the API."""
    if who == "me":
        return lambda one: one.actor_id == actor.id
    return lambda one: one.actor_id == who or one.actor_name.upper() == who.upper()


def expected(actor: Actor, who: str, **same: str) -> list[Run]:
    theirs = asked_by(actor, who)
    ids = {one.run_id for one in CancelRequest.objects.filter(answer="accepted") if theirs(one)}
    rows = [run for run in Run.objects.filter(pk__in=ids) if all(getattr(run, name) == value for name, value in same.items())]
    return sorted(rows, key=lambda run: (run.created_at, run.pk), reverse=True)


def walked(actor: Actor, wanted: RunFilter, limit: int) -> list[Run]:
    """Every page from the newest to the oldest; going back over them gives the same pages."""
    pages = [queries.find_runs(actor, wanted, limit=limit)]
    assert pages[0].previous is None
    while pages[-1].next:
        pages.append(queries.find_runs(actor, wanted, pages[-1].next, limit))
    back = pages[-1]
    for page in reversed(pages[:-1]):
        back = queries.find_runs(actor, wanted, back.previous, limit)
        assert back.items == page.items
    return [run for page in pages for run in page.items]


WHO = (
    "me",
    "u-support",
    "Sam Support",
    "sam support",
    "SAM MARRIED",
    "u-namesake",
    "U-SUPPORT",
    "robot",
    "Robot",
    "Ada Admin",
    "nobody",
    "%",
)


def test_the_runs_that_somebody_stopped_are_listed_once_each_in_the_order_of_the_list(many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "COUNT_ALLOWED_MS", 60_000)  # a busy machine answers `many runs`
    for who in WHO:
        for limit in (2, 100):
            assert walked(SUPPORT, RunFilter(cancelled_by=who), limit) == expected(SUPPORT, who), (who, limit)
        for name, value in {"agent": "refunds", "business_ref": "PO-1", "status": "cancelled"}.items():
            several = (value,) if name in ("agent", "status") else value
            wanted = RunFilter(cancelled_by=who, **{name: several})
            assert walked(SUPPORT, wanted, 2) == expected(SUPPORT, who, **{name: value}), (who, name)
        wanted = Wanted(RunFilter(cancelled_by=who))
        for size in (2, 100):
            counted = listing.count_text(SUPPORT, wanted, listing.page(SUPPORT, wanted, None, size))
            assert counted.removesuffix("s") == f"{len(expected(SUPPORT, who))} run", who
        assert walked(SUPPORT, RunFilter(cancelled_by=who, q="PO-1"), 2) == expected(SUPPORT, who, business_ref="PO-1"), who
        rows = queries.narrow(SUPPORT, Run.objects.all(), RunFilter(cancelled_by=who))
        assert sorted(run.pk for run in rows) == sorted(run.pk for run in expected(SUPPORT, who)), who
    assert expected(SUPPORT, "robot") and expected(SUPPORT, "Ada Admin") and not expected(SUPPORT, "nobody")
    for one in CancelRequest.objects.select_related("run"):
        assert one.run_created_at == one.run.created_at


def named(text: str) -> list[Run]:
    """What a text stands for, said once more: the start of a run's business reference or of an action's, or a provider's id."""
    acted = Effect.objects.filter(Q(business_ref__startswith=text) | Q(external_id=text)).values_list("run", flat=True)
    rows = [run for run in Run.objects.all() if run.business_ref.startswith(text) or run.pk in set(acted)]
    return sorted(rows, key=lambda run: (run.created_at, run.pk), reverse=True)


@pytest.mark.parametrize("many_are", [planning.MANY, 3])
def test_runs_are_found_by_the_start_of_a_name_whether_few_or_many_have_it(monkeypatch: pytest.MonkeyPatch, many_are: int) -> None:
    monkeypatch.setattr(queries, "MANY", many_are)
    for number in range(12):
        run, token = new_run(business_ref=("PO-1", "PO-12", "po-1", "P%-1", "")[number % 5])
        if number % 3 == 0:
            tell(send(run, token, ref=f"PO-1{number}" if number % 2 else f"X-{number}"), "landed", external_id=f"S-{number}")
    for text in ("PO-1", "PO-", "P", "P%", "po", "S-6", "S-", "X-6", "PO-13", "nothing", "_"):
        for limit in (2, 100):
            assert walked(SUPPORT, RunFilter(q=text), limit) == named(text), (text, limit)
        rows = queries.narrow(SUPPORT, Run.objects.all(), RunFilter(q=text))
        assert sorted(run.pk for run in rows) == sorted(run.pk for run in named(text)), text
    assert len(named("P")) > 3 and named("S-6") and named("PO-13") and not named("nothing")


def test_a_list_that_is_whole_on_its_page_is_counted_from_it(many: None, django_assert_num_queries: Any) -> None:
    wanted = Wanted(RunFilter(agent=["refunds"]))
    shown = listing.page(SUPPORT, wanted, None, 100)
    with django_assert_num_queries(0):
        assert listing.count_text(SUPPORT, wanted, shown) == f"{len(shown.items)} runs"
    assert shown.items


def test_a_page_that_its_runs_have_left_does_not_say_that_there_are_none(many: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "COUNT_ALLOWED_MS", 60_000)
    wanted = Wanted(RunFilter(agent=["refunds"]))
    oldest = listing.page(SUPPORT, wanted, None, 100).items[-1]
    place = queries.make_cursor(False, oldest.created_at, oldest.pk)
    beyond = listing.page(SUPPORT, wanted, place, 100)
    assert beyond.items == []
    assert listing.count_text(SUPPORT, wanted, beyond, place) == f"{Run.objects.filter(agent='refunds').count()} runs"
