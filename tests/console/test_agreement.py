"""List, detail, push and API say the same of a run and offer the same, whatever was done to it; no number is wrong, and none of them says
*cancelled* before it is true. A thousand random runs with COUNTERMAND_FAULTS=all (`make faults`), some of them otherwise."""

from __future__ import annotations

import html
import os
import random
import re

import pytest
from django.http import HttpResponse
from django.test import Client

from console.pages import fragments
from runs import states
from runs.models import Run
from runs.vocabulary import run_chip
from tests.console.browsing import person, text
from tests.console.random_runs import make
from tests.makers import fresh

pytestmark = pytest.mark.usefixtures("database")

RUNS = 1000 if os.environ.get("COUNTERMAND_FAULTS") == "all" else 60
SEED = int(os.environ.get("COUNTERMAND_SEED") or random.randrange(2**32))
PEOPLE = {"Sam": "Support", "Ada": "Approver", "Ode": "Auditor", "Al": "Admin"}
CHIP = r'<span class="chip [^>]*>.*?<span>(.*?)</span></span>'
SAYS_CANCELLED = re.compile(r".{,80}\b[Cc]ancelled\b.{,40}")


def words(page: str, around: str) -> str:
    found = re.search(around + ".*?" + CHIP, page, re.S)
    assert found, f"no chip after {around}"
    return html.unescape(found[1])


def offers(page: str, start: str, end: str) -> list[str]:
    """The last words of the addresses that a part of the page leads to: `cancel`, `terminate`."""
    part = page.partition(start)[2].partition(end)[0]
    return sorted(re.findall(r'href="/runs/[^"]+/(\w+)" data-dialog', part))


def rows(client: Client) -> dict[str, tuple[str, list[str]]]:
    """Chip and offers of each run by its reference, over all pages of the list."""
    seen, address = {}, "/runs/?size=100"
    while address:
        response = client.get(address)
        page = response.content.decode()
        for row in re.findall(r'<tr id="row-.*?</tr>', page, re.S):
            ref = re.search(r"/runs/(R-\w+)/", row)
            assert ref
            seen[ref[1]] = (words(row, "<tr"), offers(row, "run-actions-", "</td>"))
        older = response.context["pager"]["older"]
        address = f"/runs/{older}" if older else ""
    return seen


def of_itself(page: HttpResponse) -> str:
    """What a run's page says of the run, without what it says of its children: those may have been cancelled before."""
    body = re.sub(r'<section class="section" id="run-children".*?</section>', "", page.content.decode(), flags=re.S)
    body = re.sub(r'<li class="pic-lane lane-of-child-run">.*?</li>', "", body, flags=re.S)
    return text(HttpResponse(re.sub(r"<nav.*?</nav>", "", body, flags=re.S)))


def numbers_add_up(run: Run, page: HttpResponse) -> None:
    body = page.content.decode()
    total = body.count('<tr role="row" id="effect-')
    account = re.search(r'<p class="account-sum">(.*?)</p>', body, re.S)
    if account:
        first, *parts = (int(number) for number in re.findall(r"<b>(\d+)</b>", account[1]))
        assert first == total == sum(parts), f"{run.ref}: {account[1]}"
    for part, whole in re.findall(r"(\d+) of (\d+) actions?\b", text(page)):
        assert int(part) <= int(whole) == total, f"{run.ref} says {part} of {whole}, and has {total}"
    assert f">{total} action" in body


def test_list_detail_push_and_api_agree() -> None:
    made = make(RUNS, SEED)
    print(f"COUNTERMAND_SEED={SEED}")  # a failure names the seed that repeats it
    clients = {name: person(name, group) for name, group in PEOPLE.items()}
    lists = {name: rows(client) for name, client in clients.items()}
    assert len(lists["Sam"]) == Run.objects.count()
    for number, run in enumerate(made):
        name = list(PEOPLE)[number % len(PEOPLE)]
        client, (chip, offered) = clients[name], lists[name][run.ref]
        page = client.get(f"/runs/{run.ref}/")
        body = page.content.decode()
        head = offers(body, "run-head-actions-", "</div>\n  </div>")
        assert (words(body, 'id="run-head"'), [one for one in head if one == "cancel"]) == (chip, offered), f"{run.ref} for {name}"
        answer = client.get("/live/actions", {"id": [f"run-actions-{run.pk}", f"run-head-actions-{run.pk}"]}).json()
        parts = {one["id"]: one["html"] for one in answer["items"]}
        assert offers(f"[{parts[f'run-actions-{run.pk}']}]", "[", "]") == offered
        assert offers(f"[{parts[f'run-head-actions-{run.pk}']}]", "[", "]") == head
        pushed = fragments.row_html(run)
        assert words(pushed, "<tr") == chip and "data-dialog" not in pushed
        assert words(fragments.head_html(run), 'id="run-head"') == chip
        status = client.get(f"/api/v1/runs/{run.ref}").json()["status"]
        assert run_chip(status, run.in_flight).text == chip and status == fresh(run).status
        numbers_add_up(run, page)
        if run.state != states.CANCELLED:
            assert SAYS_CANCELLED.findall(of_itself(page)) == [], f"{run.ref} is {run.state}"
    assert {run.state for run in made} >= {states.RUNNING, states.CANCELLING, states.CANCELLED, states.COMPLETED, states.SCHEDULED}


def test_what_is_offered_is_done_and_what_is_not_is_refused() -> None:
    client = person()
    for run in make(RUNS // 4, SEED):
        offered = "cancel" in offers(client.get(f"/runs/{run.ref}/").content.decode(), "run-head-actions-", "</div>\n  </div>")
        before = fresh(run).cancel_position
        answer = client.post(f"/runs/{run.ref}/cancel", {"reason": "to see"}, follow=True)
        done = before is None and fresh(run).cancel_position is not None
        assert done == offered, f"{run.ref} is {run.status}: {text(answer)[:300]}"
