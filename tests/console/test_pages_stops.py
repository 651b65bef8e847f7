"""Cancel and terminate by the pages: every answer, with and without JavaScript."""

import json
import re
import threading

import pytest
from django.test import Client

from runs import leases, lifecycle, transition
from runs.models import CancelRequest, Run
from tests.console.browsing import HTMX, hidden, person, text
from tests.makers import WORKER, cancel, fresh, kinds, let_time_pass, new_run, send, step, tell

pytestmark = pytest.mark.usefixtures("database")


def click(run: Run, client: Client | None = None, verb: str = "cancel", here: str = "", **form):
    """A click in the dialog of the page at `here` (the run's own page unless said otherwise)."""
    headers = HTMX | {"HTTP_HX_CURRENT_URL": f"http://testserver{here or f'/runs/{run.ref}/'}"}
    return (client or person()).post(f"/runs/{run.ref}/{verb}", form, **headers)


def counts(run: Run) -> tuple[str, int]:
    return fresh(run).state, CancelRequest.objects.filter(run=run).count()


# The dialog


def test_the_dialog_says_what_stops_what_cannot_and_what_stays():
    run, token = new_run(title="Order 12 pumps", plan=["order", "more", "notify"])
    tell(send(run, token, ref="PO-1"), "landed", amount=12500, currency="EUR")
    send(run, token, ref="PO-2", step="more")
    response = person().get(f"/runs/{run.ref}/cancel", **HTMX)
    said = text(response)
    assert f"Cancel {run.ref}?" in said and "“Order 12 pumps”, started" in said
    assert "1 step not started" in said
    assert "1 action in flight order PO-2 €125.00 EUR" in said
    assert "1 action already landed order PO-1 €125.00 EUR" in said
    assert "No clean-up steps are registered." in said and "does not listen for a cancel" in said
    assert "Keep it running" in said and "Cancel this run" in said
    assert "<html" not in response.content.decode() and 'id="dialog-body"' in response.content.decode()
    assert counts(run) == ("running", 0), "looking changes nothing"


def test_how_long_it_usually_takes_is_counted_from_the_agents_own_stops():
    for seconds in (1, 2, 2, 3):
        stopped, token = new_run()
        cancel(stopped)
        let_time_pass(seconds)
        leases.stopped(WORKER, stopped.pk, token)
    run, _ = new_run()
    assert "Usually quiet" not in text(person().get(f"/runs/{run.ref}/cancel", **HTMX)), "four are too few to call usual"
    stopped, token = new_run()
    cancel(stopped)
    let_time_pass(60)
    leases.stopped(WORKER, stopped.pk, token)
    said = text(person().get(f"/runs/{run.ref}/cancel", **HTMX))
    assert re.search(r"Usually quiet in 2(\.\d)? s \(p95 (48|49|50) s\)\.", said), said


def test_the_same_dialog_is_a_page():
    run, _ = new_run()
    body = person().get(f"/runs/{run.ref}/cancel").content.decode()
    assert "<html" in body and 'id="dialog-body"' in body


def test_the_plan_follows_the_run_while_the_dialog_is_open():
    run, token = new_run()
    client = person()
    assert "Nothing is in flight right now." in text(client.get(f"/runs/{run.ref}/cancel/plan", **HTMX))
    send(run, token)
    assert "1 action in flight" in text(client.get(f"/runs/{run.ref}/cancel/plan", **HTMX))
    cancel(run)
    assert "1 action in flight" in text(client.get(f"/runs/{run.ref}/cancel/plan", **HTMX))


# The six answers


def test_accepted_with_htmx_changes_the_page_at_once():
    run, token = new_run()
    send(run, token)
    response = click(run, reason="wrong order", seen=fresh(run).version)
    assert response.status_code == 202 and response.headers["HX-Reswap"] == "none"
    announced = json.loads(response.headers["HX-Trigger"])["cm-done"]["announce"]
    assert announced.startswith("Cancelling. Sam Support asked at") and "1 action in flight" in announced
    body = response.content.decode()
    for part in ("run-head", "run-receipt", "run-account", "run-effects"):
        assert f'id="{part}"' in body
    assert body.count('hx-swap-oob="outerMorph"') == 5 and "Cancelling" in text(response)
    request = CancelRequest.objects.get(run=run)
    assert (request.reason, request.actor_name, request.channel) == ("wrong order", "Sam Support", "web")


def test_accepted_in_the_list_changes_the_row():
    run, _ = new_run()
    response = click(run, here="/runs/?status=running")
    assert response.status_code == 202
    body = response.content.decode()
    assert body.strip().startswith(f'<tr id="row-{run.pk}"') and "hx-swap-oob" in body and "run-head" not in body


def test_accepted_without_javascript_goes_to_the_run_and_says_it_there():
    run, token = new_run()
    send(run, token)
    response = person().post(f"/runs/{run.ref}/cancel", {"reason": ""}, follow=True)
    assert response.redirect_chain == [(f"/runs/{run.ref}/", 302)]
    assert "Cancelling. Sam Support asked at" in text(response) and "no reason given" in text(response)


def test_what_was_sent_while_reading_is_said_and_the_cancel_stands():
    run, token = new_run()
    client = person()
    page = client.get(f"/runs/{run.ref}/cancel")
    seen, digest = hidden(page, "seen"), hidden(page, "plan_digest")
    effect = send(run, token).effect
    response = click(run, client, seen=seen, plan_digest=digest)
    assert response.status_code == 202
    expected = f"While you were reading, 1 more action was sent: order €125.00 EUR PO-1042 ({effect.ref})."
    assert expected in json.loads(response.headers["HX-Trigger"])["cm-done"]["announce"]
    assert expected in text(client.get(f"/runs/{run.ref}/"))


def test_a_second_click_changes_nothing_and_says_who_asked():
    run, _ = new_run()
    click(run, reason="first")
    response = click(run, person("Olga"), reason="second")
    assert response.status_code == 200
    assert "Already cancelling — Sam Support asked at" in text(response) and "Your click changed nothing." in text(response)
    assert "data-problem" in response.content.decode() and "Cancel this run" not in text(response)
    assert "because “first”" in text(person().get(f"/runs/{run.ref}/"))


def test_opening_the_dialog_of_a_cancelled_run_says_so_and_records_nothing():
    run, token = new_run()
    cancel(run)
    leases.stopped(WORKER, run.pk, token)
    before = len(kinds(run))
    said = text(person().get(f"/runs/{run.ref}/cancel", **HTMX))
    assert "Already cancelled — Sam Support asked at" in said and len(kinds(run)) == before


def test_too_late_is_refused_with_the_result():
    run, token = new_run()
    effect = send(run, token).effect
    tell(effect, "landed", amount=12500, currency="EUR")
    lifecycle.finish(WORKER, run.pk, token, "completed", {"supplier_order": "SO-1", "amount": 12500, "currency": "EUR"})
    response = click(run)
    said = text(response)
    assert response.status_code == 409
    assert f"Not cancelled: this run had already finished. {run.ref} completed at" in said and "before your cancel at" in said
    assert "Nothing was stopped. Result: amount: €125.00 EUR, supplier order: SO-1." in said
    assert f"1 action took effect: order €125.00 EUR PO-1042 ({effect.ref})." in said
    assert "See what it did" in said and "Cancel this run" not in said
    assert fresh(run).status == "completed"
    assert "cancel.too_late" in kinds(run)


def test_opening_the_dialog_too_late_says_that_it_is_over():
    run, token = new_run()
    lifecycle.finish(WORKER, run.pk, token, "completed", {})
    said = text(person().get(f"/runs/{run.ref}/cancel", **HTMX))
    assert "This run has already finished." in said and "your cancel" not in said


def test_busy_records_nothing_and_offers_to_try_again(monkeypatch):
    monkeypatch.setattr("runs.cancellation.LOCK_WAIT_S", 0.1)
    run, _ = new_run()
    client = person()
    held, free = threading.Event(), threading.Event()

    def hold() -> None:
        from django.db import connection, transaction

        with transaction.atomic():
            transition.lock(run.pk)
            held.set()
            free.wait(20)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    try:
        assert held.wait(10)
        response = click(run, client, reason="please")
    finally:
        free.set()
        holder.join()
    assert response.status_code == 503
    assert "Not recorded: the run is locked by another transaction. Nothing was stopped." in text(response)
    assert "please" in response.content.decode() and "Cancel this run" in text(response)
    assert counts(run) == ("running", 0)


def test_an_auditor_is_told_who_can():
    run, _ = new_run()
    auditor = person("Ode", "Auditor")
    for response in (auditor.get(f"/runs/{run.ref}/cancel", **HTMX), click(run, auditor)):
        assert response.status_code == 403
        expected = f"You can see this run but not cancel it. Support, Approver and Admin can. Run reference: {run.ref}."
        assert expected in text(response)
    assert counts(run) == ("running", 0)


def test_an_unknown_run_is_not_found():
    response = person().post("/runs/R-0000000000/cancel")
    assert response.status_code == 404 and "No run called R-0000000000." in text(response)


# What a form may not do


def test_a_form_without_its_token_does_nothing():
    run, _ = new_run()
    for path in ("cancel", "terminate"):
        response = person(enforce_csrf_checks=True).post(f"/runs/{run.ref}/{path}", {"reason": "x", "typed": run.ref})
        assert response.status_code == 403 and "nothing was done" in text(response)
    assert counts(run) == ("running", 0)


def test_a_signed_out_click_goes_to_sign_in_and_does_nothing():
    run, _ = new_run()
    response = Client().post(f"/runs/{run.ref}/cancel", **HTMX)
    assert response.status_code == 401 and response.headers["HX-Redirect"].startswith("/accounts/login/")
    assert counts(run) == ("running", 0)


@pytest.mark.parametrize("form", [{"seen": "-1"}, {"seen": "x" * 50}, {"seen": "9" * 40}, {"plan_digest": "zzz"}])
def test_a_cancel_is_never_blocked_by_what_was_seen(form):
    run, _ = new_run()
    assert click(run, **form).status_code == 202


def test_a_reason_is_kept_as_text_and_never_as_markup():
    run, _ = new_run()
    click(run, reason="<script>alert(1)</script>\u202e")
    body = person().get(f"/runs/{run.ref}/").content.decode()
    assert "<script>alert" not in body and "&lt;script&gt;" in body and "U+202E" in body


def test_other_methods_are_refused():
    run, _ = new_run()
    assert person().put(f"/runs/{run.ref}/cancel").status_code == 405
    assert person().post(f"/runs/{run.ref}/cancel/plan").status_code == 405


# Terminate


def terminated(run: Run, client: Client | None = None, **form):
    client = client or person()
    page = client.get(f"/runs/{run.ref}/terminate")
    seen = {"seen": hidden(page, "seen"), "plan_digest": hidden(page, "plan_digest")}
    return click(run, client, "terminate", **({"reason": "it hangs", "typed": run.ref} | seen | form))


def test_terminating_says_what_it_skips_and_leaves():
    run, token = new_run()
    send(run, token)
    cancel(run)
    let_time_pass(370)
    said = text(person().get(f"/runs/{run.ref}/terminate", **HTMX))
    assert f"Terminate {run.ref} without clean-up?" in said and "This does not undo anything" in said
    assert "1 in flight → is checked with the provider; a person is asked if that fails." in said
    assert "Cancelling has been going for 6 min 10 s." in said or "6 min 11 s" in said
    assert "worker to confirm" in said and "Keep cancelling" in said


def test_what_is_not_being_cancelled_is_not_said_to_be():
    run, _ = new_run()
    said = text(person().get(f"/runs/{run.ref}/terminate", **HTMX))
    assert "Leave it as it is" in said and "cancelling" not in said.replace("when cancelling can’t finish", "")


def test_terminating_needs_the_reference_and_a_reason():
    run, _ = new_run()
    client = person()
    wrong = terminated(run, client, typed="R-0000000000")
    assert wrong.status_code == 422 and f"Type {run.ref}, exactly this run's reference." in text(wrong)
    assert "it hangs" in wrong.content.decode()
    reasonless = terminated(run, client, reason=" ")
    assert reasonless.status_code == 422 and "Terminating needs a reason." in text(reasonless)
    assert counts(run) == ("running", 0)


def test_terminated_at_once_with_the_exact_sentence():
    run, token = new_run()
    send(run, token)
    response = terminated(run, typed=run.ref.lower())
    assert response.status_code == 202
    said = text(person().get(f"/runs/{run.ref}/"))
    assert "Terminated by Sam Support at" in said and 'Reason: "it hangs".' in said
    assert f"We stopped giving {run.ref} work and refuse anything it still tries. Its clean-up steps did not run." in said
    assert "Terminating undid nothing: 0 actions had landed and stay in effect; 1 is unknown" in said
    assert "Terminated — effects pending" in said


@pytest.mark.parametrize("cancelled_first", [False, True])
def test_what_is_learned_later_names_what_stopped_the_run(cancelled_first):
    run, token = new_run()
    landed, late = send(run, token, ref="PO-1"), send(run, token, ref="PO-2", step="more")
    tell(landed, "landed", external_id="S-1")
    if cancelled_first:
        cancel(run)
    terminated(run)
    tell(late, "landed", external_id="S-2")
    said = text(person().get(f"/runs/{run.ref}/"))
    stop, how = ("cancel", "the cancel was accepted") if cancelled_first else ("termination", "the run was terminated")
    assert f"Landed before the {stop}." in said and f"; {how} at" in said
    assert f"Landed. We learned it after the {stop}." in said and f"before {how} at" in said


def test_a_stale_preview_stops_the_terminate_and_shows_what_changed():
    run, token = new_run()
    client = person()
    page = client.get(f"/runs/{run.ref}/terminate")
    seen = {"seen": hidden(page, "seen"), "plan_digest": hidden(page, "plan_digest")}
    effect = send(run, token).effect
    response = click(run, client, "terminate", reason="it hangs", typed=run.ref, **seen)
    said = text(response)
    assert response.status_code == 409
    assert "Something changed while you were reading. Check again, then terminate." in said
    assert f"Order €125.00 EUR PO-1042 {effect.ref} is being sent" in said
    assert counts(run) == ("running", 0)
    retry = click(
        run,
        client,
        "terminate",
        reason="it hangs",
        typed=run.ref,
        seen=hidden(response, "seen"),
        plan_digest=hidden(response, "plan_digest"),
    )
    assert retry.status_code == 202 and fresh(run).state == "terminated"


def test_an_auditor_may_not_terminate():
    run, _ = new_run()
    auditor = person("Ode", "Auditor")
    for response in (
        auditor.get(f"/runs/{run.ref}/terminate"),
        click(run, auditor, "terminate", reason="x", typed=run.ref, plan_digest="x"),
    ):
        assert response.status_code == 403 and "You can see this run but not terminate it." in text(response)
    assert counts(run) == ("running", 0)


def test_terminating_what_is_over_is_refused():
    run, token = new_run()
    step(run, token)
    lifecycle.finish(WORKER, run.pk, token, "failed", error="boom")
    response = click(run, verb="terminate", reason="x", typed=run.ref, plan_digest="x")
    assert response.status_code == 409 and "Not cancelled: this run had already finished." in text(response)
