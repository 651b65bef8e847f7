"""Exports: recorded, formula-safe or byte-exact, streamed in flat memory however long the history is."""

from __future__ import annotations

import csv
import io
import json

import psutil
import psycopg
import pytest
from django.db import connection
from django.test import AsyncClient
from django.test.utils import CaptureQueriesContext

from console.audit import exporting
from console.audit.filters import Wanted
from runs import sealing, timeline
from runs.actors import AUDIT_READ, Actor, system
from runs.models import Event
from tests import platform
from tests.console.browsing import person, text
from tests.makers import cancel, new_run, send, tell

pytestmark = pytest.mark.usefixtures("database")
AUDITOR = Actor("person", "u-audit", "Ode Auditor", "web", frozenset({AUDIT_READ}))


@pytest.fixture
def auditor():
    return person("Ode", "Auditor")


def body(response):
    return b"".join(response.streaming_content).decode()


def table(response):
    return list(csv.DictReader(io.StringIO(body(response), newline="")))


def test_the_page_says_what_would_be_exported(auditor):
    new_run()
    said = text(auditor.get("/audit/export?kind=run&since=2026-01-01T00:00"))
    assert "Export 2 records, CSV or JSONL, times in UTC, filters: from 1 Jan 2026 00:00 UTC, Life of a run." in said
    assert not Event.objects.filter(kind="audit.exported").exists()


def test_jsonl_is_what_was_sealed_byte_for_byte(auditor):
    run, token = new_run()
    timeline.append_system("test.said", system("x"), "=1+1", {"n": 1.50, "text": "é\n\u2028\x01"})
    tell(send(run, token), "landed")
    response = auditor.post("/audit/export", {"form": "jsonl"})
    assert response["Content-Type"] == "application/jsonl" and ".jsonl" in response["Content-Disposition"]
    lines = body(response).split("\n")[:-1]
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {sealing.LINE} FROM runs_event e WHERE kind <> 'audit.exported' ORDER BY at, id")
        assert lines == [line for (line,) in cursor.fetchall()]
    said = next(json.loads(line) for line in lines if json.loads(line)["subject"] == "=1+1")
    assert said["data"] == {"n": 1.5, "text": "é\n\u2028\x01"}


def test_csv_is_safe_to_open_and_keeps_negative_numbers(auditor):
    for subject in ("=1+1", "-12.50", "-1+1", "+1", "@x", "|x", "\t=1", "plain"):
        timeline.append_system("test.said", Actor("person", "9", "=HYPERLINK()", "web"), subject, {"text": "=a"})
    run, token = new_run()
    sent = send(run, token, amount=12500)
    rows = table(auditor.post("/audit/export", {"form": "csv"}))
    assert list(rows[0]) == list(exporting.COLUMNS)
    said = {row["subject"] for row in rows if row["kind"] == "test.said"}
    assert said == {"'=1+1", "-12.50", "'-1+1", "'+1", "'@x", "'\\|x", "'\t=1", "plain"}
    assert {row["actor_name"] for row in rows if row["kind"] == "test.said"} == {"'=HYPERLINK()"}
    sending = next(row for row in rows if row["subject"] == sent.effect.ref)
    wanted = {"run": run.ref, "provider": "supplier", "action": "create_order", "amount_minor": "12500", "currency": "EUR"}
    assert {name: sending[name] for name in wanted} == wanted
    assert sending["at"].endswith("+00:00")


def test_the_export_is_a_record_itself_with_its_filters(auditor):
    run, _ = new_run()
    cancel(run)
    rows = table(auditor.post("/audit/export?kind=cancel&page=3", {"form": "csv"}))
    assert [row["kind"] for row in rows] == ["cancel.accepted"]
    event = Event.objects.get(kind="audit.exported")
    assert (event.actor_name, event.subject, event.data["filters"]) == ("Ode Auditor", "csv", {"kind": "cancel"})
    assert "Exported events as csv" in text(auditor.get("/audit/"))


def test_an_unknown_form_is_refused_and_not_recorded(auditor):
    response = auditor.post("/audit/export", {"form": "xlsx"})
    assert response.status_code == 400 and "csv or jsonl" in text(response)
    assert not Event.objects.filter(kind="audit.exported").exists()


def test_the_page_needs_its_token():
    strict = person("Ode", "Auditor", enforce_csrf_checks=True)
    assert strict.post("/audit/export", {"form": "csv"}).status_code == 403


async def test_an_asynchronous_server_streams_the_same(auditor):
    from asgiref.sync import sync_to_async

    await sync_to_async(new_run)()
    client = AsyncClient()
    client.cookies = auditor.cookies
    response = await client.post("/audit/export", {"form": "jsonl"})
    parts = [part async for part in response.streaming_content]
    assert len(b"".join(parts).splitlines()) == 2


MANY = 100_000


@pytest.fixture
def many(database):
    """A hundred thousand events, copied in by the owner."""
    with psycopg.connect(platform.OWNER_URL) as owner:
        owner.execute(
            "INSERT INTO runs_event (kind, subject, actor_type, actor_id, actor_name, channel, data, at)"
            " SELECT 'test.said', 'word ' || n, 'system', 'x', 'x', '', jsonb_build_object('n', n, 'pad', repeat('x', 200)),"
            " clock_timestamp() - (%s - n) * interval '1 second' FROM generate_series(1, %s) n",
            (MANY, MANY),
        )


@pytest.mark.parametrize("form", exporting.FORMS)
def test_a_hundred_thousand_events_begin_at_once_and_take_no_memory(many, form):
    before = psutil.Process().memory_info().rss
    parts = exporting.begin(AUDITOR, Wanted(), form, {})
    with CaptureQueriesContext(connection) as asked:
        first = next(parts) if form == "jsonl" else next(parts) and next(parts)
    assert len(asked) <= 2, "the first part waits for one batch, not for all"
    size, lines, peak = len(first), first.count(b"\n"), before
    for part in parts:
        size, lines = size + len(part), lines + part.count(b"\n")
        peak = max(peak, psutil.Process().memory_info().rss)
    assert lines == MANY
    assert peak - before < size / 2, f"{peak - before} bytes of memory for {size} bytes of export"
