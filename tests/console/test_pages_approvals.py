"""The inbox of confirmations: what is asked, who may decide, and what a decision does."""

import pytest

from runs import approvals, lifecycle
from runs.approvals import Question
from runs.models import Approval, Run
from tests.console.browsing import HTMX, hidden, person, text
from tests.makers import WORKER, cancel, fresh, let_time_pass, new_run

pytestmark = pytest.mark.usefixtures("database")

ACTION = {
    "provider": "supplier",
    "action": "create_order",
    "business_ref": "PO-1042",
    "occurrence": 1,
    "amount": 420000,
    "currency": "EUR",
    "request": {"lines": [1], "note": "<script>alert(1)</script>"},
}


def asked(question: str = "Order 12 pumps?", **values) -> tuple[Run, Approval]:
    run, token = new_run(title="Order 12 pumps")
    approval, _ = approvals.request(WORKER, run.pk, token, Question("ask", question, **({"action": ACTION} | values)))
    return run, approval


def ada():
    return person("Ada", "Approver")


def test_nothing_to_decide_says_so():
    assert "Nothing waits for a decision." in text(ada().get("/approvals/"))


def test_the_inbox_says_what_would_be_sent_where_and_how_much():
    run, _ = asked()
    response = ada().get("/approvals/")
    said = text(response)
    assert "€4,200.00 EUR" in said and "Order 12 pumps?" in said and "order PO-1042 to Supplier" in said and run.ref in said
    assert "Approve €4,200.00 EUR…" in said and "Reject…" in said
    assert "<script>alert" not in response.content.decode()
    assert "It asks: Order 12 pumps?" in text(person().get(f"/runs/{run.ref}/"))


def test_only_approvers_see_buttons():
    asked()
    for name, group in (("Sam", "Support"), ("Ode", "Auditor")):
        said = text(person(name, group).get("/approvals/"))
        assert "Order 12 pumps?" in said and "Approve €4,200.00" not in said
        assert "You can see these but not decide them." in said


def test_approving_lets_the_run_go_on():
    run, approval = asked()
    client = ada()
    page = client.get(f"/approvals/{approval.pk}/approve")
    assert "Approve order PO-1042 for €4,200.00 EUR" in text(page) and "Approving is not the action itself" in text(page)
    response = client.post(f"/approvals/{approval.pk}/approve", {"digest": hidden(page, "digest")}, follow=True)
    assert f"Approved. {run.ref} goes on with exactly this action." in text(response)
    assert fresh(run).state == "scheduled"
    assert "Approved by Ada Approver " in text(client.get("/approvals/?tab=decided"))


def test_with_htmx_it_goes_back_to_the_inbox():
    _, approval = asked()
    client = ada()
    dialog = client.get(f"/approvals/{approval.pk}/approve", **HTMX)
    assert "<html" not in dialog.content.decode() and 'id="dialog-body"' in dialog.content.decode()
    response = client.post(f"/approvals/{approval.pk}/approve", {"digest": hidden(dialog, "digest")}, **HTMX)
    assert response.status_code == 204 and response.headers["HX-Redirect"] == "/approvals/"


def test_rejecting_needs_a_reason():
    run, approval = asked()
    client = ada()
    digest = hidden(client.get(f"/approvals/{approval.pk}/reject"), "digest")
    wrong = client.post(f"/approvals/{approval.pk}/reject", {"digest": digest, "comment": " "}, **HTMX)
    assert wrong.status_code == 422 and "Rejecting needs a reason." in text(wrong)
    assert fresh(run).state == "awaiting_approval"
    client.post(f"/approvals/{approval.pk}/reject", {"digest": digest, "comment": "too dear"})
    assert (fresh(run).state, Approval.objects.get(pk=approval.pk).comment) == ("scheduled", "too dear")


@pytest.mark.parametrize("digest", ["", "another"])
def test_what_was_seen_is_what_is_decided_upon(digest):
    run, approval = asked()
    response = ada().post(f"/approvals/{approval.pk}/approve", {"digest": digest}, **HTMX)
    assert response.status_code == 409 and "What you saw is not what is asked now." in text(response)
    assert fresh(run).state == "awaiting_approval"


def test_decided_meanwhile_by_somebody_else_is_said_kindly():
    _, approval = asked()
    first, second = ada(), person("Ben", "Approver")
    digest = hidden(second.get(f"/approvals/{approval.pk}/reject"), "digest")
    first.post(f"/approvals/{approval.pk}/approve", {"digest": digest})
    response = second.post(f"/approvals/{approval.pk}/reject", {"digest": digest, "comment": "no"}, **HTMX)
    assert response.status_code == 409
    assert "Already approved by Ada Approver. Your decision changed nothing." in text(response)
    assert "Approved by Ada Approver." in text(second.get(f"/approvals/{approval.pk}/reject"))


def test_withdrawn_with_its_run():
    run, approval = asked()
    digest = approval.digest
    cancel(run)
    response = ada().post(f"/approvals/{approval.pk}/approve", {"digest": digest}, **HTMX)
    assert response.status_code == 409 and "Withdrawn:" in text(response) and "Your decision changed nothing." in text(response)
    assert "Withdrawn: the run does not need it any more " in text(ada().get("/approvals/?tab=decided"))


def test_expired():
    _, approval = asked()
    digest = approval.digest
    let_time_pass(73 * 3600)
    response = ada().post(f"/approvals/{approval.pk}/approve", {"digest": digest}, **HTMX)
    assert response.status_code == 409 and "Nobody decided in time" in text(response)


def test_without_an_action_the_button_names_no_amount():
    _, approval = asked("Shall I go on?", action=None, details={"why": "unsure"})
    said = text(ada().get(f"/approvals/{approval.pk}/approve"))
    assert "Approve this?" in said and "Shall I go on?" in said and "unsure" in said


def test_who_may_not_decides_nothing():
    run, approval = asked()
    for name, group in (("Sam", "Support"), ("Ode", "Auditor")):
        client = person(name, group)
        assert "You can see this but not decide it." in text(client.get(f"/approvals/{approval.pk}/approve"))
        assert client.post(f"/approvals/{approval.pk}/approve", {"digest": approval.digest}).status_code == 403
    assert ada().put(f"/approvals/{approval.pk}/approve").status_code == 405
    forged = person("Ada", "Approver", enforce_csrf_checks=True).post(f"/approvals/{approval.pk}/approve", {"digest": approval.digest})
    assert forged.status_code == 403
    assert fresh(run).state == "awaiting_approval"


@pytest.mark.parametrize("name", ["zzz", "01a22aea-1eb8-704d-986f-f94b65cc2bc5"])
def test_an_unknown_approval_is_not_found(name):
    assert ada().get(f"/approvals/{name}/approve").status_code == 404


def test_nobody_waits_for_what_a_finished_run_asked():
    run, token = new_run()
    lifecycle.finish(WORKER, run.pk, token, "completed", {})
    assert ada().get("/approvals/").context["nav"][2]["count"] == 0


def test_a_card_that_was_pushed_fetches_what_its_reader_may_do():
    _, approval = asked()
    place = f"approval-actions-{approval.pk}"
    (item,) = ada().get("/live/actions", {"id": place}).json()["items"]
    assert item["id"] == place and f'href="/approvals/{approval.pk}/approve"' in item["html"]
    assert person("Sam", "Support").get("/live/actions", {"id": place}).json()["items"] == [{"id": place, "html": ""}]
    ada().post(f"/approvals/{approval.pk}/approve", {"digest": approval.digest})
    assert ada().get("/live/actions", {"id": place}).json()["items"] == [{"id": place, "html": ""}]
    assert ada().get("/live/actions", {"id": ["approval-actions-x", f"undo-actions-{approval.pk}"]}).json()["items"] == []


def test_the_inbox_says_what_it_shows_so_that_it_can_be_kept_up_to_date():
    run, approval = asked()
    page = ada().get("/approvals/").content.decode()
    assert 'data-watch="approvals?tab=to_decide"' in page and " data-live" in page
    assert f'id="row-{approval.pk}" data-row="{approval.pk}" data-version="{fresh(run).version}"' in page
