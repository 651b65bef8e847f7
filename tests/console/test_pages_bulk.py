"""Cancelling many from the list: the question with its counts, the job's page with one row a run, and sums that add up."""

from __future__ import annotations

import re

import pytest

from runs import bulk, lifecycle
from runs.models import BulkCancel, CancelRequest
from tests.console.browsing import HTMX, person, text
from tests.makers import WORKER, cancel, fresh, new_run, send, tell

pytestmark = pytest.mark.usefixtures("database")


def sent(client, page, **more):
    """Send the question's form, as a browser would."""
    fields: dict[str, list[str]] = {}
    for name, value in re.findall(r'<input type="hidden" name="([^"]+)" value="([^"]*)"', page.content.decode()):
        if name != "csrfmiddlewaretoken":
            fields.setdefault(name, []).append(value.replace("&amp;", "&"))
    return client.post("/bulk/cancel", fields | {name: [value] for name, value in more.items()})


def test_picked_runs_are_counted_by_what_they_do_and_each_gets_an_answer():
    flying, token = new_run("w-1")
    one = send(flying, token)
    queued, _ = new_run("")
    stopping, _ = new_run("w-2")
    cancel(stopping)
    done, done_token = new_run("w-3")
    lifecycle.finish(WORKER, done.pk, done_token, "completed", {})
    client = person()
    page = client.get("/bulk/cancel", {"run": [flying.ref, queued.ref, stopping.ref, done.ref]})
    said = text(page)
    assert "Cancel 4 runs?" in said and "The 4 runs you picked." in said
    assert "1 can be cancelled · 1 has actions in flight · 1 is already cancelling · 1 is already closed" in said
    assert "Leave them running" in said and "Cancel 4 runs" in said
    answer = sent(client, page, reason="Wrong prices.")
    job = BulkCancel.objects.get()
    assert (answer.status_code, answer.headers["Location"]) == (302, f"/bulk/{job.pk}/")
    assert "4 runs: 4 still to do" in text(client.get(f"/bulk/{job.pk}/"))
    assert 'hx-trigger="every 2s"' in client.get(f"/bulk/{job.pk}/").content.decode()
    bulk.work_off()
    response = client.get(f"/bulk/{job.pk}/")
    said = text(response)
    assert "Cancel of 4 runs" in said and "because “Wrong prices.”" in said
    assert "4 = 2 accepted + 1 already cancelling + 1 already closed" in said
    assert all(run.ref in said for run in (flying, queued, stopping, done))
    assert "It had already completed." in said and "every 2s" not in response.content.decode()
    tell(one, "landed")


def test_all_that_match_as_it_was_when_the_question_was_asked():
    early, _ = new_run("", agent="refunds")
    other, _ = new_run("")
    client = person()
    listed = client.get("/runs/", {"agent": "refunds"}).content.decode()
    url = re.search(r'href="(/bulk/cancel\?[^"]+)"', listed)
    assert url is not None
    page = client.get(url.group(1).replace("&amp;", "&"))
    said = text(page)
    assert "All open runs that match: agent refunds. 1 now; runs that start from now on are not included." in said
    late, _ = new_run("", agent="refunds")
    sent(client, page)
    bulk.work_off()
    assert [fresh(run).state for run in (early, late, other)] == ["cancelled", "scheduled", "scheduled"]
    assert CancelRequest.objects.get().channel == "bulk"


def test_nothing_picked_is_refused_and_nothing_is_recorded():
    client = person()
    for asked in ({}, {"run": "nonsense"}, {"all": "1", "agent": "nobody"}):
        answer = client.get("/bulk/cancel", asked)
        assert answer.status_code == 400 and "No run matches" in text(answer)
    assert client.post("/bulk/cancel", {}).status_code == 400
    assert not BulkCancel.objects.exists()


def test_only_for_those_who_may_cancel():
    run, _ = new_run("")
    auditor = person("Ode", "Auditor")
    page = auditor.get("/runs/").content.decode()
    assert 'id="bulk-form"' not in page and "can-pick" not in page
    assert auditor.get("/bulk/cancel", {"run": run.ref}).status_code == 403
    assert auditor.post("/bulk/cancel", {"run": run.ref}).status_code == 403
    assert not BulkCancel.objects.exists()


def test_the_list_has_a_box_for_each_open_run():
    run, _ = new_run("")
    closed, _ = new_run("")
    cancel(closed)
    page = person().get("/runs/").content.decode()
    assert f'id="pick-{run.pk}"' in page and f'id="pick-{closed.pk}"' not in page
    assert 'id="bulk-all"' not in page, "all runs there are is no selection"


def test_a_long_job_is_shown_in_parts(monkeypatch):
    monkeypatch.setattr("runs.bulk_pages.LINES", 2)
    made = [new_run("")[0] for _ in range(3)]
    client = person()
    sent(client, client.get("/bulk/cancel", {"run": [run.ref for run in made]}))
    job = BulkCancel.objects.get()
    assert made[2].ref not in text(client.get(f"/bulk/{job.pk}/"))
    part = client.get(f"/bulk/{job.pk}/?after=2", **HTMX)
    assert made[2].ref in text(part) and "<html" not in part.content.decode()


def test_a_job_that_does_not_exist():
    client = person()
    for name in ("00000000-0000-0000-0000-000000000009", "nonsense"):
        assert client.get(f"/bulk/{name}/").status_code == 404


def test_the_form_says_when_it_is_not_whole():
    new_run("", agent="refunds")
    answer = person().post("/bulk/cancel", {"all": "1", "agent": "refunds", "as_of": "yesterday"})
    assert answer.status_code == 400 and "Open the question again" in text(answer)
    assert not BulkCancel.objects.exists()
