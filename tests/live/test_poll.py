"""Without a socket: the same frames over HTTP."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import httpx
import pytest

from console import people
from runs import actors
from tests import makers
from tests.live.browser import list_of, some_id
from tests.live.conftest import Site, person


def rows_text(rows: dict[str, int]) -> str:
    return "~".join(f"{run}.{version}" for run, version in rows.items())


def of_type(answer: httpx.Response, kind: str) -> list[dict[str, Any]]:
    assert answer.status_code == 200, answer.text
    return [frame for frame in answer.json()["frames"] if frame["type"] == kind]


def items(answer: httpx.Response) -> dict[str, dict[str, Any]]:
    return {item["id"]: item for frame in of_type(answer, "fragments") for item in frame["items"]}


def test_it_tells_what_differs(site: Site):
    (run, token), (other, _) = makers.new_run(), makers.new_run()
    rows = list_of([run, other])
    with site.browser("support") as client:
        assert items(client.get("/live/poll", params={"list": "runs", "rows": rows_text(rows)})) == {}
        makers.send(run, token)
        makers.cancel(run)
        answer = client.get("/live/poll", params={"list": "runs", "rows": rows_text(rows)})
        assert set(items(answer)) == {f"row-{run.pk}"} and "Cancelling" in items(answer)[f"row-{run.pk}"]["html"]
        assert of_type(answer, "counts")[0]["runs"]["cancelling"] == 1
        assert answer.json()["frames"][-1] == {"type": "synced"}
        assert "no-store" in answer.headers["Cache-Control"]
        whole = items(client.get("/live/poll", params={"run": str(run.pk), "version": 2, "seq": 2}))
        assert {"run-head", "run-account", "run-effects", "tl-3"} <= set(whole) and "tl-2" not in whole
        assert client.get("/live/poll").json()["frames"][-1] == {"type": "synced"}


def test_a_stranger_gets_401_and_somebody_of_no_group_403(site: Site):
    assert httpx.get(f"{site.url}/live/poll", trust_env=False).status_code == 401
    assert httpx.get(f"{site.url}/live/poll", cookies={"sessionid": "x"}, trust_env=False).status_code == 401
    with site.browser("auditor") as client:
        people.set_groups(actors.system("test"), person("auditor"), [])
        assert client.get("/live/poll", params={"list": "runs"}).status_code == 403
        people.set_active(actors.system("test"), person("auditor"), False)
        assert client.get("/live/poll", params={"list": "runs"}).status_code == 401


@pytest.mark.parametrize(
    "query",
    [
        {"rows": "x.1"},
        {"rows": "1"},
        {"rows": f"{some_id()}.-1"},
        {"rows": f"{some_id()}.²"},
        {"run": "x"},
        {"seq": "x"},
        {"version": "9" * 30},
        {"list": "x" * 3000},
        {"list": "runs?\x00"},
    ],
)
def test_what_is_not_understood_is_400(site: Site, query: dict[str, str]):
    with site.browser("support") as client:
        answer = client.get("/live/poll", params=query)
        assert answer.status_code == 400 and answer.headers["Content-Type"] == "application/problem+json"
        assert client.post("/live/poll").status_code in (403, 405)


def test_signing_in_and_out_and_rights_are_in_the_system_stream(site: Site):
    from runs.models import Event

    with site.browser("support") as client:
        form = {"csrfmiddlewaretoken": client.cookies["csrftoken"]}
        client.post("/accounts/logout/", data=form, headers={"Referer": site.url})
    people.set_groups(makers.ADMIN, person("support"), ["Auditor"])
    people.set_active(makers.ADMIN, person("support"), False)
    kinds: Iterable[str] = Event.objects.filter(kind__startswith="people.").order_by("id").values_list("kind", flat=True)
    assert list(kinds) == ["people.signed_in", "people.signed_out", "people.groups_changed", "people.deactivated"]
    changed = Event.objects.get(kind="people.groups_changed")
    assert changed.subject == str(person("support").pk) and changed.actor_name == "Ada Admin" and changed.data["groups"] == ["Auditor"]
