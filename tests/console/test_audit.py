"""The audit pages: who may read them, what the filters find, one run's whole story, and nothing to press."""

from __future__ import annotations

import html
import re
from datetime import timedelta

import pytest
from django.contrib.auth.models import User

from console.audit import choosing, search
from reconciliation import integrity
from runs import approvals, leases, sealing, timeline
from runs.actors import Actor, system
from runs.models import Approval, Event
from tests.console.browsing import person, text
from tests.makers import APPROVER, SUPPORT, WORKER, cancel, fresh, new_run, open_cases, send, settle, sweep, tell
from tests.undo import landed, undo

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def auditor():
    return person("Ode", "Auditor")


def events_on(response):
    return [int(pk) for pk in re.findall(r'<tr role="row" id="event-(\d+)"', response.content.decode())]


def found(client, **filters):
    response = client.get("/audit/", filters)
    assert response.status_code == 200, text(response)
    return Event.objects.filter(pk__in=events_on(response))


def story_run():
    """A run with a landed order, one in doubt that a person settled, and a cancel with its quiet time."""
    run, token = new_run()
    tell(send(run, token, ref="PO-1", amount=12500), "landed")
    send(run, token, ref="PO-2", ordinal=1, amount=990, currency="USD")
    cancel(run, reason="The customer withdrew.")
    leases.stopped(WORKER, run.pk, token)
    sweep()
    return run


@pytest.mark.parametrize("group", ["Support", "Approver", "Admin", ""])
@pytest.mark.parametrize("path", ["/audit/", "/audit/export", "/audit/runs/{ref}/"])
def test_only_auditors_may(group, path):
    run, _ = new_run()
    client = person("Nobody", group)
    assert client.get(path.format(ref=run.ref)).status_code == 403
    assert client.post("/audit/export", {"form": "csv"}).status_code == 403
    assert not Event.objects.filter(kind="audit.exported").exists()
    assert "/audit/" not in client.get("/help/").content.decode()


def test_signed_out_goes_to_sign_in(client):
    assert client.get("/audit/").status_code == 302


def test_the_list_says_what_happened_and_of_when_it_is(auditor):
    run = story_run()
    response = auditor.get("/audit/")
    said = text(response)
    assert "As of " in said and "Refresh" in said
    assert f"{Event.objects.count()} records" in said
    assert "Cancel accepted — asked by Sam Support" in said and "The customer withdrew." in said
    assert "data-live" not in response.content.decode().split("<main")[0].split("<body")[1].split(">")[0]
    assert events_on(response) == sorted(Event.objects.values_list("pk", flat=True), reverse=True)[:50]
    assert f'href="/audit/runs/{run.ref}/"' in response.content.decode()


def test_there_is_nothing_to_press(auditor):
    run = story_run()
    for path in ("/audit/", f"/audit/runs/{run.ref}/"):
        main = auditor.get(path).content.decode().split("<main")[1].split("</main>")[0]
        assert 'method="post"' not in main and "btn-stop" not in main
        buttons = re.findall(r"<button[^>]*>", main)
        assert [one for one in buttons if "data-copy" not in one] == (
            ['<button class="btn btn-main" type="submit">'] if path == "/audit/" else []
        )


def test_each_filter_finds_what_it_says(auditor):
    run = story_run()
    other, _ = new_run("w-2")
    timeline.append_system("people.signed_in", Actor("person", "77", "Gone Person", "web"), "77", {"username": "gone"})
    first, second = run.effects.order_by("created_at")
    assert set(found(auditor, run=run.ref.lower()).values_list("run", flat=True)) == {run.pk}
    assert set(found(auditor, effect=first.ref).values_list("subject", flat=True)) == {first.ref}
    assert set(found(auditor, kind="cancel").values_list("kind", flat=True)) == {"cancel.accepted"}
    assert set(found(auditor, kind="run.created").values_list("run", flat=True)) == {run.pk, other.pk}
    assert set(found(auditor, state="effect.landed").values_list("subject", flat=True)) == {first.ref}
    assert set(found(auditor, people="1").values_list("actor_type", flat=True)) == {"person"}
    assert found(auditor, actor="Gone Person").get().kind == "people.signed_in"
    assert found(auditor, actor="Sam Support", run=run.ref).get().kind == "cancel.accepted"
    assert set(found(auditor, provider="supplier").values_list("subject", flat=True)) == {first.ref, second.ref}
    assert not found(auditor, provider="stripe").exists()
    assert set(found(auditor, amount_from="125.00", currency="EUR").values_list("subject", flat=True)) == {first.ref}
    assert set(found(auditor, amount_to="9.90", currency="usd").values_list("subject", flat=True)) == {second.ref}
    assert not found(auditor, amount_from="125.01", currency="EUR").exists()
    assert not found(auditor, run="R-0000000000").exists()


def test_time_and_time_to_quiet(auditor, owner_connection):
    run = story_run()
    owner_connection.execute("UPDATE runs_run SET quiet_at = asked_at + interval '90 seconds' WHERE id = %s", (run.pk,))
    assert set(found(auditor, quiet_over="89.5").values_list("run", flat=True)) == {run.pk}
    assert not found(auditor, quiet_over="90").exists()
    third = Event.objects.order_by("at", "id")[2]
    assert found(auditor, until=third.at.isoformat()).count() == 2
    assert found(auditor, since=third.at.isoformat(), until=(third.at + timedelta(days=1)).isoformat()).count() == Event.objects.count() - 2
    local = third.at.strftime("%Y-%m-%dT%H:%M:%S")  # without a zone it is UTC
    assert found(auditor, since=local).exists()
    assert not found(auditor, since=local, zone="America/New_York").exists()
    auditor.cookies["zone"] = "America/New_York"
    response = auditor.get("/audit/", {"since": local})
    assert "From (America/New_York)" in text(response) and re.search(r"from \d+ \w+ \d+ [\d:]+ E[SD]T", text(response))
    assert "zone=Asia%2FTokyo" in auditor.get("/audit/", {"since": local, "zone": "Asia/Tokyo"}).context["export_url"]


def test_people_are_found_by_the_names_they_have(auditor):
    user = User.objects.create_user("lee", first_name="Lee", last_name="Ng")
    timeline.append_system("people.signed_in", Actor("person", str(user.pk), "Lee Old-Name", "web"), str(user.pk), {})
    timeline.append_system("people.signed_in", Actor("machine", "lee", "lee", "api"), "", {})
    timeline.append_system("people.signed_in", Actor("machine", "robot", "Robot", "api"), "", {})
    assert found(auditor, actor="Lee Old-Name").get().actor_id == str(user.pk)
    assert found(auditor, actor="Robot").get().actor_type == "machine"
    for who in ("lee", "Lee Ng", "LEE NG"):
        assert found(auditor, actor=who).get().actor_name == "Lee Old-Name"


@pytest.mark.parametrize(
    ("filters", "field"),
    [
        ({"since": "yesterday"}, "since"),
        ({"until": "2026-13-01T00:00"}, "until"),
        ({"run": "x"}, "run"),
        ({"effect": "R-7K2M9Q4TXA"}, "effect"),
        ({"state": "effect.happy"}, "state"),
        ({"amount_from": "1.00"}, "currency"),
        ({"amount_from": "1e3", "currency": "EUR"}, "amount_from"),
        ({"amount_to": "1.005", "currency": "EUR"}, "amount_to"),
        ({"amount_to": "1", "currency": "<b>"}, "amount_to"),
        ({"quiet_over": "nan"}, "quiet_over"),
        ({"quiet_over": "-1"}, "quiet_over"),
        ({"place": "zzz"}, "place"),
        ({"place": "o99999999999999999999.000000-1"}, "place"),
        ({"actor": "\x00"}, "actor"),
    ],
)
def test_what_cannot_be_read_is_refused_by_name(auditor, filters, field):
    for path in ("/audit/", "/audit/export"):
        if path == "/audit/export" and field == "place":
            continue
        response = auditor.get(path, filters)
        assert response.status_code == 400 and field in text(response)


def place(response, rel):
    link = re.search(rf'href="([^"]*)" rel="{rel}"', response.content.decode())
    return f"/audit/{html.unescape(link[1])}" if link else ""


def test_pages_by_place(auditor):
    for number in range(120):
        timeline.append_system("test.said", system("x"), f"word {number}")
    everything = list(Event.objects.order_by("-at", "-id").values_list("pk", flat=True))
    seen, pages, url = [], [], "/audit/"
    while url and len(pages) < 5:
        response = auditor.get(url)
        pages.append(events_on(response))
        seen += pages[-1]
        url = place(response, "next")
    assert seen == everything and len(pages) == 3
    assert events_on(auditor.get(place(response, "prev"))) == pages[1]
    assert "No records match" in text(auditor.get("/audit/?run=R-0000000000"))


def test_the_filters_are_in_the_address_and_come_off_one_by_one(auditor):
    page = auditor.get("/audit/?people=1&kind=cancel&since=2026-01-01T00:00")
    said = text(page)
    assert "Showing only from 1 Jan 2026 00:00 UTC" in said and "people only" in said and "Cancels" in said
    assert 'href="/audit/?people=1&amp;kind=cancel"' in page.content.decode()


def test_a_search_that_takes_too_long_says_so(auditor, monkeypatch):
    monkeypatch.setattr(search, "TIME_ALLOWED_MS", 1)
    for _ in range(3):
        new_run()
    slow = choosing.Chosen(Event.objects.extra(where=["pg_sleep(0.05) IS NOT NULL"]))
    monkeypatch.setattr(search, "events", lambda actor, wanted: slow)
    response = auditor.get("/audit/")
    assert response.status_code == 503 and "Narrow it to a time range" in text(response)


def test_a_count_that_takes_too_long_is_left_out(auditor, monkeypatch):
    new_run()
    monkeypatch.setattr(search, "COUNT_ALLOWED_MS", 1)
    slow = choosing.Chosen(Event.objects.extra(where=["pg_sleep(0.01) IS NOT NULL"]))
    monkeypatch.setattr(search, "events", lambda actor, wanted: slow)
    assert "Export many records" in text(auditor.get("/audit/export"))
    assert "2 records" in text(auditor.get("/audit/")), "what is on one page needs no counting"


def test_many_and_few_actions_are_found_alike(auditor, monkeypatch):
    run = story_run()
    narrow = {"run": run.ref, "provider": "supplier", "currency": "EUR", "amount_from": "100"}
    quiet = {"quiet_over": "0"}
    few = [sorted(found(auditor, **filters).values_list("pk", flat=True)) for filters in (narrow, {"provider": "supplier"}, quiet)]
    monkeypatch.setattr(choosing, "FEW", 1)
    many = [sorted(found(auditor, **filters).values_list("pk", flat=True)) for filters in (narrow, {"provider": "supplier"}, quiet)]
    assert few == many and all(few)
    assert "Export 1+ records" in text(auditor.get("/audit/export", {"provider": "supplier"}))
    assert "Export many records" in text(auditor.get("/audit/export", {"provider": "supplier", "run": run.ref}))
    assert f"{len(few[0])} record" in text(auditor.get("/audit/", narrow))


def test_hostile_text_is_data(auditor):
    timeline.append_system("test.said", Actor("person", "9", "<img src=x onerror=alert(1)>", "web"), "<script>\u202e", {"reason": "<b>"})
    body = auditor.get("/audit/").content.decode()
    assert "<img src=x" not in body and "<script>\u202e" not in body and "U+202E" in body


def test_the_story_of_a_run(auditor, fake):
    fake.promise(lookup="none")
    run, token = new_run()
    tell(send(run, token, provider="fake", ref="PO-1"), "unknown")
    sweep()
    settle(open_cases()[0], "happened", external_id="THEIRS-7")
    asked = approvals.Question(key="confirm", question="Send it?")
    approvals.request(WORKER, run.pk, token, asked)
    approvals.decide(APPROVER, Approval.objects.get().pk, "approved", "Looks right.")
    cancel(run, reason="Enough.")
    sweep()
    sealing.seal_due()
    said = text(auditor.get(f"/audit/runs/{run.ref}/"))
    for words in (
        "Asked", "Heard", "Quiet", "Settled",
        "Sam Support", "Enough.", "accepted",
        "Version 1", "1 action = 1 landed",
        "Send it?", "approved by Amy Approver", "Looks right.",
        "THEIRS-7", "it happened",
        f"All {fresh(run).version} records of this run", f"Sealed up to record {fresh(run).version}",
    ):  # fmt: skip
        assert words in said, words
    assert auditor.get(f"/audit/runs/{run.ref.lower().replace('-', '')}/").status_code == 302
    assert auditor.get("/audit/runs/R-NOPE/").status_code == 404


def test_the_story_has_every_word_about_an_undo(auditor, refunding):
    run, effect = landed(closed=True)
    request = undo(effect)
    said = text(auditor.get(f"/audit/runs/{run.ref}/"))
    for words in (request.ref, "asked by Sam Support", "Approved by Amy Approver", "€100.00 EUR", request.digest, request.effect.ref):
        assert words in said, words
    assert request.effect is not None and integrity.check([run.pk]) == []


def test_a_run_that_did_nothing_has_a_story_too(auditor):
    run, _ = new_run()
    said = text(auditor.get(f"/audit/runs/{run.ref}/"))
    assert "Nobody has acted on this run." in said and "Nothing has left us" in said and "Not sealed yet." in said
    assert SUPPORT.name not in said
