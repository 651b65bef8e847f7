"""The list of runs and a run's own page, as people of each group see them."""

import json
from datetime import timedelta
from zoneinfo import ZoneInfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from ledger import outcomes
from runs import cancellation, cleaning, leases, lifecycle, local_times, steps
from runs.models import Run
from tests.console.browsing import HTMX, person, text
from tests.makers import (
    SUPPORT,
    WORKER,
    again,
    cancel,
    child_of,
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

pytestmark = pytest.mark.usefixtures("database")


def shown(run: Run, client: Client | None = None) -> str:
    return text((client or person()).get(f"/runs/{run.ref}/"))


# The list


def test_nothing_yet_says_so():
    said = text(person().get("/runs/"))
    assert "No runs yet. Runs appear here as soon as an agent starts one." in said


def test_the_list_shows_each_run_with_its_chip_effects_and_what_one_may_do():
    run, token = new_run(title="Order 12 pumps", business_ref="PO-1")
    send(run, token, ref="PO-1")
    response = person().get("/runs/")
    said = text(response)
    assert run.ref in said and "Order 12 pumps" in said and "Writing — 1 in flight" in said and "1 in flight" in said
    assert f'href="/runs/{run.ref}/cancel"' in response.content.decode()
    assert f'data-row="{run.pk}" data-version="{fresh(run).version}"' in response.content.decode()


def test_an_auditor_sees_the_list_without_buttons():
    run, _ = new_run()
    response = person("Ode", "Auditor").get("/runs/")
    assert run.ref in text(response)
    assert "/cancel" not in response.content.decode()


def test_a_cancelled_run_offers_no_cancel():
    run, _ = new_run(holder="")
    cancel(run)
    assert f"/runs/{run.ref}/cancel" not in person().get("/runs/").content.decode()


def test_filters_narrow_and_each_can_be_taken_away():
    mine, token = new_run(business_ref="PO-77")
    other, _ = new_run(holder="", business_ref="PO-88")
    send(mine, token)
    client = person()
    for query in ("q=PO-77", f"q={mine.ref.lower()}", "status=writing", "status=writing&status=running"):
        said = text(client.get(f"/runs/?{query}"))
        assert mine.ref in said and other.ref not in said, query
    page = client.get("/runs/?q=PO-77&agent=purchase-order").content.decode()
    assert 'href="/runs/?agent=purchase-order"' in page and 'data-watch="runs?q=PO-77&amp;agent=purchase-order"' in page
    assert "No runs match these filters." in text(client.get("/runs/?q=nothing"))


def test_only_runs_with_unknown_effects():
    run, token = new_run()
    tell(send(run, token), "unknown")
    quiet, _ = new_run(holder="")
    said = text(person().get("/runs/?doubtful=1"))
    assert run.ref in said and quiet.ref not in said and "1 unknown" in said


@pytest.mark.parametrize("query", ["status=nonsense", "started_from=yesterday", "cursor=zzz", "q=%00"])
def test_what_cannot_be_read_is_said_and_not_guessed(query):
    response = person().get(f"/runs/?{query}")
    assert response.status_code == 400
    assert "can't be read" in text(response) and "No runs" not in text(response)


def test_pages_by_keyset():
    refs = [new_run(holder="")[0].ref for _ in range(27)]
    client = person()
    first = client.get("/runs/?size=25")
    assert text(first).count("R-") >= 25 and refs[0] not in text(first)
    older = first.context["pager"]["older"]
    second = client.get(f"/runs/{older}")
    assert refs[0] in text(second) and refs[-1] not in text(second)
    assert 'data-newest="' in first.content.decode() and 'data-newest="' not in second.content.decode()
    assert refs[-1] in text(client.get(f"/runs/{second.context['pager']['newer']}"))


def test_the_counts_strip_links_to_what_it_counts():
    run, token = new_run()
    send(run, token)
    new_run(holder="")
    cancel(new_run()[0])
    client = person()
    response = client.get("/runs/")
    counts = {item["key"]: item["count"] for item in response.context["strip"]}
    assert counts == {"needs_person": 0, "cancelling": 1, "running": 1, "waiting": 1}
    url = next(item["url"] for item in response.context["strip"] if item["key"] == "running")
    assert run.ref in text(client.get(url)) and client.get(url).context["strip"][2]["current"]


def test_the_list_takes_the_same_few_queries_for_many_rows():
    client = person()
    new_run(holder="")
    client.get("/runs/")
    with CaptureQueriesContext(connection) as one:
        client.get("/runs/")
    for _ in range(10):
        run, token = new_run()
        send(run, token, ref=run.ref)
    with CaptureQueriesContext(connection) as many:
        client.get("/runs/")
    assert len(many) == len(one) <= 16


# Who may see what


def test_strangers_are_asked_to_sign_in_and_come_back():
    run, _ = new_run()
    for path in ("/", "/runs/", f"/runs/{run.ref}/", "/cases/", "/approvals/", "/demo/", "/live/actions", "/help/"):
        response = Client().get(path, follow=path == "/")
        location = response.headers.get("Location") or response.redirect_chain[-1][0]
        assert location.startswith("/accounts/login/?next="), path


def test_somebody_without_a_group_may_see_nothing():
    run, _ = new_run()
    for path in ("/runs/", f"/runs/{run.ref}/", f"/runs/{run.ref}/cancel", "/cases/", "/approvals/", "/demo/"):
        response = person("Nils", "").get(path)
        assert response.status_code == 403 and "Not allowed" in text(response), path


def test_an_unknown_reference_says_what_to_do():
    for ref in ("R-9999", "R-7K2M9Q4TXA", "nonsense", "a" * 300):
        response = person().get(f"/runs/{ref}/")
        assert response.status_code == 404
        assert f"No run called {ref[:60]}. Check the reference, or search." in text(response)


def test_a_reference_typed_by_hand_leads_to_the_run():
    run, _ = new_run()
    response = person().get(f"/runs/{run.ref.lower().replace('-', '')}/")
    assert response.status_code == 302 and response.headers["Location"] == f"/runs/{run.ref}/"


@pytest.mark.parametrize("path", ["/runs/", "/cases/", "/approvals/", "/live/actions", "/help/"])
def test_pages_are_read_only(path):
    assert person().post(path).status_code == 405


def test_pages_are_never_stored_and_forbid_everything_inline():
    response = person().get("/runs/")
    assert response.headers["Cache-Control"] == "no-store"
    assert "HX-Request" in response.headers["Vary"]
    policy = response.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy and "unsafe" not in policy


# A run's page: the five moments of a cancel, and what follows


def test_cancelled_before_the_send():
    run, token = new_run()
    send(run, token, begin=False)
    cancel(run, reason="wrong order")
    leases.stopped(WORKER, run.pk, token)
    said = shown(run)
    assert "Not sent. This order was stopped before it left us. Nothing reached Supplier. There is nothing to undo." in said
    assert "No send had started (record" in said
    assert "Stopped. Its one action is accounted for." in said
    assert "1 action = 1 stopped" in said and "because “wrong order”" in said


def test_cancelled_after_a_send_that_never_left():
    run, token = new_run()
    tell(send(run, token), "not_sent")
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    said = shown(run)
    assert "Not sent. This order was stopped before it left us." in said and "Its sender reported that nothing left." in said
    assert "No send had started" not in said


def test_cancelled_while_in_flight():
    run, token = new_run()
    send(run, token)
    cancel(run)
    said = shown(run)
    assert "Cancelling. Sam Support asked at" in said
    assert "Nothing new can start. Waiting for: worker w-1 to confirm, 1 action in flight." in said
    assert "In flight. We had already sent this order to Supplier at" in said and "It can't be called back." in said
    assert "1 action = 1 in flight" in said and "draft" in said
    assert "In flight order PO-1042 €125.00 EUR" in said.replace(" · ", " "), "the receipt lists it"


def test_confirmed_after_the_cancel():
    run, token = new_run()
    sent = send(run, token)
    cancel(run)
    tell(sent, "landed", amount=12500, currency="EUR")
    leases.stopped(WORKER, run.pk, token)
    said = shown(run)
    assert "Landed. We learned it after the cancel." in said and "Supplier's answer reached us at" in said
    assert "Landed — confirmed after the cancel" in said
    assert "in effect (1 confirmed after the cancel)" in said and "It is in effect now." in said
    assert "Quiet after" in said and "Nothing of this run is acting any more." in said


def test_landed_before_the_cancel():
    run, token = new_run()
    tell(send(run, token), "landed", amount=12500, currency="EUR")
    cancel(run)
    said = shown(run)
    assert "Landed before the cancel. Supplier confirmed this order at" in said
    assert "Cancelling did not change it. It is in effect now." in said and "We know it from the sender's answer." in said


def test_the_answer_was_never_recorded_and_the_worker_is_gone():
    run, token = new_run(holder="w-9")
    send(run, token)
    cancel(run)
    let_time_pass(120)
    sweep()
    said = shown(run)
    assert "We don't know yet." in said and "Don't repeat it by hand — it could happen twice." in said
    assert "Nothing new can start. Its one action is not settled: E-" in said
    assert "Worker w-9 has not answered" in said and "it may still be computing" in said
    assert "Cancelled — effects pending" in said and "1 unknown" in said
    assert "accounted for" not in said


def test_unknown_then_a_person_must_find_out(fake):
    run, token = new_run()
    send(run, token, provider="fake")
    for _ in range(8):
        let_time_pass(900)
        sweep()
    said = shown(run)
    assert "A person must find out." in said and "Unknown — needs a person" in said
    assert open_cases(run=run)[0].ref in said


def test_a_run_that_is_over_offers_nothing_but_shows_its_account():
    run, token = new_run()
    tell(send(run, token), "landed", amount=12500, currency="EUR")
    lifecycle.finish(WORKER, run.pk, token, "completed", {"order": "S-1"})
    response = person().get(f"/runs/{run.ref}/")
    said = text(response)
    assert "Completed" in said and "Finished. Its one action is accounted for." in said
    assert "/cancel" not in response.content.decode() and "/terminate" not in response.content.decode()
    assert "1 action = 1 landed" in said


def test_terminate_is_offered_to_those_who_may():
    run, _ = new_run()
    assert f"/runs/{run.ref}/terminate" in person().get(f"/runs/{run.ref}/").content.decode()
    assert "/terminate" not in person("Ode", "Auditor").get(f"/runs/{run.ref}/").content.decode()


def test_child_runs_are_listed():
    run, token = new_run()
    step(run, token, "part", kind="child")
    child, _ = child_of(run, token)
    assert child.ref in shown(run) and f"child of {run.ref}" in shown(child)


def test_the_timeline_marks_what_came_after_the_cancel_and_is_cut_into_pages():
    run, token = new_run()
    for number in range(60):
        step(run, token, f"s-{number}")
        leases.heartbeat(WORKER, run.pk, token)
    from runs import steps

    for number in range(60):
        steps.finish(WORKER, run.pk, token, f"s-{number}", "done")
    sent = send(run, token)
    cancel(run)
    tell(sent, "landed", amount=12500, currency="EUR")
    client = person()
    response = client.get(f"/runs/{run.ref}/")
    assert len(response.context["timeline"]) == 100
    after = [item for item in response.context["timeline"] if item["after"]]
    assert [item["lane"] for item in after] == ["effect"] and "after the cancel" in text(response)
    assert [item["rule"] for item in response.context["timeline"] if item["rule"]] == ["cancel"]
    older = client.get(response.context["earlier_url"])
    assert "data-live" not in older.content.decode() and "Created by worker token" in text(older)
    assert len(older.context["timeline"]) == fresh(run).version - 100


ITEMS, PAGE_BYTES_MAX = 5000, 300 * 1024


def repeat_step(run: Run, key: str, times: int) -> None:
    """The run did the same step so many times more: its rows and events once more each, under keys of their own."""
    with connection.cursor() as cursor:
        steps_like = "gen_random_uuid(), key || n, position + 2 * n"
        rest = "run_id, kind, title, state, epoch, input_digest, result, error, message, started_at, finished_at"
        cursor.execute(
            f"INSERT INTO runs_step (id, key, position, {rest}) SELECT {steps_like}, {rest}"
            " FROM runs_step, generate_series(1, %s) n WHERE run_id = %s AND key = %s",
            [times, run.pk, key],
        )
        who = "actor_type, actor_id, actor_name, channel, data, at"
        cursor.execute(
            f"INSERT INTO runs_event (run_id, seq, kind, subject, {who}) SELECT run_id, seq + 2 * n, kind, subject || n, {who}"
            " FROM runs_event, generate_series(1, %s) n WHERE run_id = %s AND subject = %s ORDER BY n, seq",
            [times, run.pk, key],
        )
        cursor.execute("UPDATE runs_run SET version = version + 2 * %s WHERE id = %s", [times, run.pk])


def test_a_run_with_5000_items_is_shown_100_at_a_time_in_pages_of_at_most_300_kb():
    run, token = new_run()
    for number in range(12):
        tell(send(run, token, ref=f"PO-{number}", step=f"order-{number}"), "landed", amount=12500, currency="EUR")
    step(run, token, "read", title="Read a page of the catalogue")
    steps.finish(WORKER, run.pk, token, "read", "done", {"page": 1, "of": 2500})
    repeat_step(run, "read", (ITEMS - fresh(run).version) // 2)
    cancel(run)
    client, last = person(), fresh(run).version
    newest = client.get(f"/runs/{run.ref}/")
    assert newest.context["earlier_url"] == f"/runs/{run.ref}/?before={last - 99}#run-timeline" and last >= ITEMS
    for page, before in ((newest, last + 1), *((client.get(f"/runs/{run.ref}/?before={seq}"), seq) for seq in (last - 99, 2500, 101))):
        assert [item["seq"] for item in page.context["timeline"]] == list(range(before - 100, before))
        assert len(page.content) <= PAGE_BYTES_MAX


def test_the_page_takes_the_same_queries_for_many_effects():
    run, token = new_run()
    client = person()
    send(run, token, ref="PO-1")
    client.get(f"/runs/{run.ref}/")
    with CaptureQueriesContext(connection) as few:
        client.get(f"/runs/{run.ref}/")
    for number in range(2, 12):
        send(run, token, ref=f"PO-{number}", step=f"order-{number}")
    with CaptureQueriesContext(connection) as many:
        client.get(f"/runs/{run.ref}/")
    assert len(many) == len(few) <= 30


def test_more_effects_than_a_page_lists_are_counted_and_those_not_settled_are_listed(monkeypatch):
    run, token = new_run()
    for number in range(1, 5):
        tell(send(run, token, ref=f"PO-{number}", step=f"order-{number}"), "landed", external_id=f"SO-{number}")
    assert "What it did outside 4 actions" in shown(run)
    tell(send(run, token, ref="PO-5", step="order-5"), "unknown")
    monkeypatch.setattr("ledger.pages.EFFECTS_MAX", 3)
    page, story = person().get(f"/runs/{run.ref}/"), person("Ann", "Auditor").get(f"/audit/runs/{run.ref}/")
    for answer in (page, story):
        assert "3 of 5 actions: those that are not settled, and the oldest" in text(answer)
        assert [item["effect"]["business_ref"] for item in answer.context["effects"]] == ["PO-1", "PO-2", "PO-5"]
    assert f'href="/api/v1/runs/{run.ref}/effects"' in page.content.decode()


def test_the_account_can_be_downloaded():
    run, token = new_run()
    tell(send(run, token), "landed", amount=12500, currency="EUR")
    lifecycle.finish(WORKER, run.pk, token, "completed", {})
    client = person()
    as_json = client.get(f"/runs/{run.ref}/account.json")
    assert json.loads(as_json.content)["totals"]["landed"] == 1
    assert as_json.headers["Content-Disposition"] == f'attachment; filename="{run.ref}-account-1.json"'
    as_csv = client.get(f"/runs/{run.ref}/account.csv").content.decode()
    assert as_csv.splitlines()[1].startswith("landed,E-")


def test_an_effect_leads_to_its_place_on_its_runs_page():
    run, token = new_run()
    effect = again(send(run, token))
    response = person().get(f"/effects/{effect.ref}")
    assert response.headers["Location"] == f"/runs/{run.ref}/#effect-{effect.pk}"
    assert person().get("/effects/E-0000000000").status_code == 404


def test_a_worker_that_goes_silent_is_said_to_be_silent():
    run, token = new_run()
    leases.heartbeat(WORKER, run.pk, token)
    cancel(run)
    let_time_pass(20)
    said = shown(run)
    assert "The worker last answered at" in said and "Terminate would not stop it sooner" in said


def test_what_a_webhook_or_look_found_says_so():
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "unknown")
    outcomes.report(WORKER, sent.effect.pk, 1, "landed", "S-1", 12500, "EUR")
    assert "We know it from the sender's answer." in shown(run)
    assert "Evidence" in shown(run)


def test_the_story_of_a_conflict_ends_on_the_page():
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "landed", amount=12500, currency="EUR")
    tell(sent, "refused")
    sweep()
    said = shown(run)
    assert "Answers disagree" in said and "A person must decide. Nothing is repeated meanwhile." in said
    settle(open_cases(run=run)[0], "happened")
    assert "Sam Support found" in shown(run)


# What this person may do, asked for by a page that a push has changed


def test_actions_are_each_persons_own():
    run, _ = new_run()
    ids = f"id=run-actions-{run.pk}&id=run-head-actions-{run.pk}&id=run-actions-nonsense&id=zzz"
    mine = {one["id"]: one["html"] for one in person().get(f"/live/actions?{ids}", **HTMX).json()["items"]}
    assert set(mine) == {f"run-actions-{run.pk}", f"run-head-actions-{run.pk}"}
    assert "Cancel this run" in mine[f"run-head-actions-{run.pk}"] and "Terminate" in mine[f"run-head-actions-{run.pk}"]
    assert "Terminate" not in mine[f"run-actions-{run.pk}"]
    auditors = person("Ode", "Auditor").get(f"/live/actions?{ids}", **HTMX).json()["items"]
    assert not any(one["html"].strip() for one in auditors)
    cancellation.request_cancel(SUPPORT, run.pk)
    later = {one["id"]: one["html"] for one in person().get(f"/live/actions?{ids}").json()["items"]}
    assert "Cancel this run" not in later[f"run-head-actions-{run.pk}"]


def test_looks_are_listed_as_evidence(fake):
    run, token = new_run()
    tell(send(run, token, provider="fake"), "unknown")
    look(40)
    assert "A look at Fake: nothing found" in shown(run)


# What it is doing, what it has cost, whom it was told


def test_running_steps_say_how_far_they_are_and_whether_they_hear():
    run, token = new_run()
    step(run, token, "count", title="Count the stock", hears_cancel_every_s=0.5)
    step(run, token, "print")
    steps.progress(run.pk, token, [{"key": "count", "progress": 0.4, "message": "40 of 100"}])
    said = shown(run)
    assert "What it is doing now" in said
    timeline = said.partition("What happened, in order")[2]
    assert "Count the stock started" in timeline and "print started" in timeline
    assert "Count the stock 40 % 40 % 40 of 100 hears a cancel within 0.5 s · last answered" in said
    assert "print can’t hear a cancel: it stops when it ends" in said
    part = person().get(f"/runs/{run.ref}/doing", **HTMX).content.decode()
    assert part.strip().startswith('<section class="section" id="run-doing"') and 'hx-trigger="every 5s, moved"' in part
    dialog = text(person().get(f"/runs/{run.ref}/cancel"))
    assert "“Count the stock” hears a cancel within 0.5 s · last answered" in dialog
    assert "“print” can’t hear a cancel: it stops when it ends" in dialog


def test_what_model_calls_cost_before_and_after_the_cancel():
    run, token = new_run()
    for key in ("think", "again"):
        step(run, token, key, kind="model_call")
    cost = {"currency": "EUR", "micros": 12300, "output_tokens": 1200}
    steps.finish(WORKER, run.pk, token, "think", "done", {}, cost=cost)
    assert "Model calls cost 0.0123 EUR, 1,200 output tokens" in shown(run)
    cancel(run)
    steps.finish(WORKER, run.pk, token, "again", "done", {}, cost=cost | {"micros": 5})
    leases.stopped(WORKER, run.pk, token)
    said = shown(run)
    assert "0.0123 EUR, 1,200 output tokens before the cancel · 0.000005 EUR, 1,200 output tokens after it" in said
    assert "What it is doing now" not in said


def test_how_its_runtime_was_told():
    run, token = new_run(runtime="celery")
    cancel(run)
    cancellation.heard(WORKER, run.pk, token)
    assert "Native cancel celery: acknowledged" in shown(run)
    run, _ = new_run(runtime="temporal")
    cancel(run)
    assert "Native cancel temporal: unsupported. Nobody delivers a native cancel to temporal yet" in shown(run)


def test_children_with_their_states_and_what_was_left_behind():
    run, token = new_run()
    child, child_token = child_of(run, token, "w-2", title="The first part")
    grandchild, grandchild_token = child_of(child, child_token, "w-3", title="A part of the first part")
    cleaning.register(WORKER, run.pk, token, "release-hold", "nobody", {})
    assert "Child runs 2: 2 running" in shown(run) and "The first part Running" in shown(run)
    assert "Child runs 1: 1 running" in shown(child) and "The first part Running" not in shown(grandchild)
    nested = person().get(f"/runs/{run.ref}/").content.decode().split('class="stack branch"')[1].split("</ul>")[0]
    assert grandchild.ref in nested and child.ref not in nested
    cancel(run)
    for one, its in ((run, token), (child, child_token), (grandchild, grandchild_token)):
        leases.stopped(WORKER, one.pk, its)
    let_time_pass(601)
    sweep()
    sweep()
    said = shown(run)
    assert "The first part Cancelled" in said
    assert "Cleanup did not reach release-hold: no worker took it within 10 minutes." in said
    assert "Stopped. It had sent nothing. 1 case about it waits for a person." in said


# Times of the filters


def test_times_of_the_filter_are_the_readers_and_the_address_means_the_same_to_everybody():
    run, token = new_run()
    send(run, token)
    started = fresh(run).started_at
    reader = person()
    reader.cookies["zone"] = "Asia/Tokyo"
    here = started.astimezone(ZoneInfo("Asia/Tokyo"))
    typed = {"started_from": f"{here - timedelta(minutes=1):%Y-%m-%dT%H:%M}", "started_to": f"{here + timedelta(minutes=2):%Y-%m-%dT%H:%M}"}
    page = reader.get("/runs/", typed | {"zone": "Asia/Tokyo"})
    assert run.ref in text(page) and "Started from (Asia/Tokyo)" in text(page)
    assert '<input type="hidden" name="zone" value="Asia/Tokyo">' in page.content.decode()
    asked = local_times.read(typed | {"zone": "Asia/Tokyo"}, "started_from")
    assert asked and f"from {local_times.words(asked, 'Asia/Tokyo')}" in text(page)
    assert "JST" in text(page) and f'value="{typed["started_from"]}:00"' in page.content.decode()
    assert "zone=Asia%2FTokyo" in page.context["watch"], "what is new is judged by the same times"

    other = person("Ode", "Auditor")
    other.cookies["browser_zone"] = "Europe/London"
    page = other.get("/runs/", typed | {"zone": "Asia/Tokyo"})
    assert run.ref in text(page) and "Started from (Europe/London)" in text(page)
    assert run.ref not in text(other.get("/runs/", typed | {"zone": "Europe/London"}))
    other.cookies["utc"] = "on"
    assert "Started from (UTC)" in text(other.get("/runs/"))


def test_a_zone_that_does_not_exist_is_said():
    response = person().get("/runs/?started_from=2026-03-02T14:02&zone=Nowhere")
    assert response.status_code == 400 and "zone: use the name of a time zone" in text(response)


def test_quiet_says_who_stopped_and_names_no_worker_that_never_was():
    queued, _ = new_run(holder="")
    cancel(queued)
    assert "Quiet — no worker ever held it" in shown(queued)
    held, token = new_run()
    cancel(held)
    leases.stopped(WORKER, held.pk, token)
    assert "Quiet — its worker said that it has stopped" in shown(held)
