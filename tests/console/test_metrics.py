"""The figures for people and for Prometheus, against what really happened."""

from __future__ import annotations

import re

import pytest
from django.db import DatabaseError, connection
from django.test import Client
from prometheus_client.parser import text_string_to_metric_families

from console import beats
from console.metrics import charts, exposition, figures
from ledger import compensations
from reconciliation import cases, health
from runs import approvals, cancellation, leases, lifecycle
from tests import undo
from tests.console.browsing import person, text
from tests.fakes import FAKE
from tests.makers import APPROVER, SUPPORT, WORKER, cancel, fresh, let_time_pass, new_run, open_cases, refused, send, settle, sweep, tell

pytestmark = pytest.mark.usefixtures("database")
TOKEN = "prometheus-brings-this"


def week() -> figures.Window:
    return figures.window(7)


def counted() -> dict[str, int]:
    return {key: count for key, _, count in figures.ends(week()).outcomes if count}


def stop(run, token) -> None:
    """The worker hears and stops."""
    cancellation.heard(WORKER, run.pk, token)
    leases.stopped(WORKER, run.pk, token)


def test_times_to_heard_and_quiet_are_those_of_the_runs():
    for _ in range(3):
        run, token = new_run()
        cancel(run)
        stop(run, token)
    other, token = new_run()
    cancel(other)
    quiet = figures.quiet(week())
    spread = quiet.all
    closed = fresh(run)
    assert spread.count == 3 == figures.totals(week()).heard.count and spread.max >= spread.p95 >= spread.p50 > 0
    assert spread.max >= (closed.quiet_at - closed.asked_at).total_seconds()
    assert (figures.totals(week()).not_quiet, figures.totals(week()).presumed) == (1, 0)
    assert [(agent, one.count) for agent, _, one in quiet.by_agent] == [("purchase-order", 3)]
    assert [one.count for _, one in quiet.by_day] == [3]


def test_every_cancel_is_counted_once_by_its_gravest_outcome(fake):
    fake.promise(lookup="none")
    plain, token = new_run()
    cancel(plain)
    early, token = new_run()
    tell(send(early, token, ref="PO-early"), "landed")
    cancel(early)
    late, token = new_run()
    sent = send(late, token, ref="PO-late")
    cancel(late)
    assert counted()["in_flight"] == 1
    tell(sent, "landed")
    person_needed, token = new_run()
    unclear = send(person_needed, token, ref="PO-unclear", provider=FAKE)
    cancel(person_needed)
    tell(unclear, "unknown")
    asked, token = new_run()
    unknown = send(asked, token, ref="PO-asked")
    cancel(asked)
    tell(unknown, "unknown")
    done, token = new_run()
    lifecycle.finish(WORKER, done.pk, token, "completed")
    cancel(done)
    sweep()
    assert counted() == {"not_sent": 1, "landed_before": 1, "landed_after": 1, "person": 1, "checking": 1, "already_closed": 1}
    assert figures.ends(week()).landed_after == [("EUR", 1, 12500)]


def test_currencies_are_never_added_up():
    for ref, currency, amount in (("a", "EUR", 100), ("b", "EUR", 250), ("c", "JPY", 5000)):
        run, token = new_run()
        sent = send(run, token, ref=ref, currency=currency, amount=amount)
        cancel(run)
        tell(sent, "landed", external_id=f"S-{ref}")
    assert figures.ends(week()).landed_after == [("EUR", 2, 350), ("JPY", 1, 5000)]
    said = text(person().get("/metrics/"))
    assert "€3.50 EUR" in said and "JPY" in said


def test_doubts_are_told_by_who_settled_them(fake):
    fake.promise(lookup="none")
    one, token = new_run()
    tell(send(one, token, ref="PO-1", provider=FAKE), "unknown")
    two, token2 = new_run()
    sent = send(two, token2, ref="PO-2")
    tell(sent, "unknown")
    tell(sent, "landed")
    three, token3 = new_run()
    tell(send(three, token3, ref="PO-3"), "unknown")
    sweep()
    case = open_cases()[0]
    cases.claim(SUPPORT, case.pk)
    settle(case, "happened")
    assert figures.resolved(week()) == (1, 1)
    assert figures.unknown_open(week().until).count == 1


def test_approvals_by_what_became_of_them():
    waits, token = new_run()
    approvals.request(WORKER, waits.pk, token, approvals.Question(key="ok", question="May I?"))
    decided, token = new_run()
    approval, _ = approvals.request(WORKER, decided.pk, token, approvals.Question(key="ok", question="May I?"))
    approvals.decide(APPROVER, approval.pk, "rejected", "no")
    assert figures.approvals_decided(week()) == (0, 1, 0)
    assert figures.approvals_waiting(week().until).count == 1
    assert "Confirmations that runs wait for 1" in text(person().get("/metrics/")) and "1 (100 %)" in text(person().get("/metrics/"))


def test_undo_requests_by_what_became_of_them(refunding, settings):
    settings.METRICS_TOKEN = TOKEN
    for name, became in (("a", "asked"), ("b", "approved"), ("c", "rejected")):
        request = undo.ask(undo.landed(f"PO-{name}")[1])
        if became != "asked":
            compensations.decide(APPROVER, request.pk, became, request.version, "as it is")
    assert figures.undos_decided(week()) == (1, 1, 0) and figures.undos_waiting(week().until).count == 1
    told = samples()
    assert told[("undo_requests", "requested")] == told[("undo_requests", "approved")] == 1


def test_attempts_after_a_cancel_are_counted():
    run, token = new_run()
    cancel(run)
    with refused("cancelled"):
        send(run, token)
    assert (figures.totals(week()).refused, figures.totals(week()).refusing_runs) == (1, 1)


def test_a_window_holds_what_was_asked_in_it():
    run, _ = new_run()
    cancel(run)
    let_time_pass(2 * 86400)
    assert sum(count for *_, count in figures.ends(figures.window(1)).outcomes) == 0
    assert sum(count for *_, count in figures.ends(figures.window(7)).outcomes) == 1


def test_the_page_says_what_it_means_and_as_of_when():
    run, token = new_run(agent="<script>alert(1)</script>")
    cancel(run)
    stop(run, token)
    response = person("Ode", "Auditor").get("/metrics/?days=30")
    said, body = text(response), response.content.decode()
    assert "From cancel accepted to the moment nothing of the run was acting any more." in said and "As of" in said and "Refresh" in said
    assert "<script>alert" not in body
    pictures = re.findall(r"<svg class=\"chart\".*?</svg>", body, re.S)
    ids = re.findall(r'\sid="([^"]+)"', body)
    assert len(ids) == len(set(ids)), "an id is used twice"
    assert len(pictures) == 3 and all("<title " in one and "<desc " in one for one in pictures)
    assert all(words in said for _, words in figures.OUTCOMES)


def test_the_page_works_with_nothing_and_with_nonsense():
    for query in ("", "?days=0", "?days=<b>", "?days=999999999999999999999"):
        response = person().get(f"/metrics/{query}")
        assert response.status_code == 200 and "0 cancelled runs" in text(response)
    assert person("Nobody", "").get("/metrics/").status_code == 403


def test_bars_are_drawn_to_scale():
    chart = charts.across("x", [("a", 10, ""), ("b", 5, ""), ("c", 0, "")])
    widths = [bar.width for bar in chart.bars]
    assert widths[0] == 2 * widths[1] and widths[2] == 0 and chart.description == "a: 10; b: 5; c: 0."
    upright = charts.upright("x", [("1 Mar", 1.0, 4.0), ("2 Mar", None, None)], [("1 s", "4 s"), ("—", "—")])
    assert [bar.height for bar in upright.bars] == [40, 160, 0, 0] and "1 Mar: half within 1 s" in upright.description
    assert upright.most == "4 s" and {bar.y + bar.height for bar in upright.bars} == {charts.PLOT_TOP + charts.PLOT_H}
    assert charts.across("x", []).description == charts.upright("x", [], []).description == "Nothing yet."


def test_of_many_days_few_are_named_so_that_their_names_do_not_run_into_each_other():
    for days in (1, 7, 8, 30):
        told = [(f"{day} Mar", 1.0, 2.0) for day in range(1, days + 1)]
        chart = charts.upright("x", told, [("1 s", "2 s")] * days)
        middles = [bar.middle for bar in chart.bars if bar.named and bar.kind == "p50"]
        assert 1 <= len(middles) <= charts.DAY_LABELS_MAX
        assert all(0 < bar.x and bar.x + bar.width < 100 for bar in chart.bars)


# Prometheus


def scrape(token: str = TOKEN):
    return Client().get("/internal/metrics", headers={"authorization": f"Bearer {token}"})


def samples() -> dict[tuple[str, ...], float]:
    told = {}
    for family in text_string_to_metric_families(scrape().content.decode()):
        for one in family.samples:
            told[(one.name.removeprefix("countermand_"), *sorted(one.labels.values()))] = one.value
    return told


def test_it_needs_its_token(settings):
    settings.METRICS_TOKEN = ""
    assert scrape("").status_code == scrape().status_code == 404
    settings.METRICS_TOKEN = TOKEN
    assert Client().get("/internal/metrics").status_code == scrape("wrong").status_code == scrape("").status_code == 401
    assert person("Ada", "Admin").get("/internal/metrics").status_code == 401
    assert scrape().status_code == 200


def test_what_prometheus_reads(settings, fake, monkeypatch):
    settings.METRICS_TOKEN = TOKEN
    monkeypatch.setattr(beats, "_noted_s", {})
    fake.promise(lookup="none")
    run, token = new_run()
    cancel(run)
    stop(run, token)
    with refused("cancelled"):
        send(run, token)
    doubt, token = new_run()
    tell(send(doubt, token, ref="PO-2", provider=FAKE), "unknown")
    sweep()
    health.not_reached("bank", "401", denied=True)
    beats.note("runs.wake_waiting")
    frequent = sum(every_s <= beats.FREQUENT_S for every_s in beats.sweeps().values())
    told = samples()
    assert told[("database_up",)] == 1
    assert told[("cancels_total",)] == told[("refused_after_cancel_total",)] == 1
    for name in ("heard", "quiet", "settled"):
        assert told[(f"time_to_{name}_count",)] == 1 and told[(f"time_to_{name}_seconds", "0.95")] > 0
    assert told[("effects_in_doubt", "ambiguous", "fake")] == 1 and told[("effects_in_doubt_oldest_seconds", "ambiguous", "fake")] >= 0
    assert told[("cases_open", "no_lookup", "open")] == 1
    assert told[("provider_unreachable", "bank")] == 1
    assert told[("sweep_age_seconds", "runs.wake_waiting")] < 60 and told[("sweeps_late",)] == frequent - 1
    assert told[("notifications_pending",)] == told[("approvals_waiting",)] == told[("sockets",)] == 0


def test_a_database_that_does_not_answer_is_a_figure(settings, monkeypatch):
    settings.METRICS_TOKEN = TOKEN

    def broken(*_: object):
        raise DatabaseError("gone")

    monkeypatch.setattr(exposition, "_rows", broken)
    assert samples()[("database_up",)] == 0


def test_figures_of_cancels_use_their_index():
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute("EXPLAIN SELECT count(*) FROM runs_run WHERE asked_at >= now() - interval '1 day' AND asked_at < now()")
        plan = str(cursor.fetchall())
        cursor.execute("RESET enable_seqscan")
    assert "run_asked" in plan
