"""Undoing in a browser and over the API: asking, deciding, and what is refused to whom, with the real accounts of people."""

from __future__ import annotations

import json

import pytest
from django.contrib.auth.models import Group, User

from console.people import Directory
from ledger import executing, rulebook
from ledger.models import Compensation
from ledger.providers.base import Answer
from runs import people
from tests.console.browsing import HTMX, hidden, person, text
from tests.fakes import FAKE
from tests.makers import again, cancel, fresh, let_time_pass, new_run, send, tell
from tests.undo import allow, landed, now

pytestmark = pytest.mark.usefixtures("refunding")


@pytest.fixture(autouse=True)
def accounts(refunding, monkeypatch):
    """The people are those who have accounts: two approvers and Sam of support."""
    monkeypatch.setattr(people, "_directory", Directory())
    for name in ("Ada", "Ben"):
        person(name, "Approver")


def sam():
    return person("Sam", "Support")


def ada():
    return person("Ada", "Approver")


def ben():
    return person("Ben", "Approver")


def asked(asks: str = "100.00", client=None, **effect) -> tuple[Compensation, object]:
    run, made = landed(**effect)
    response = (client or sam()).post(f"/effects/{made.ref}/undo", {"amount": asks, "reason": "duplicate", "note": "<b>twice</b>"})
    assert response.status_code == 302, text(response)
    return Compensation.objects.latest("requested_at"), run


def test_the_whole_way_in_a_browser(refunding):
    run, effect = landed(closed=True)
    page = sam().get(f"/runs/{run.ref}/")
    assert "Ask for it to be undone" in text(page) and f"/effects/{effect.ref}/undo" in page.content.decode()
    form = sam().get(f"/effects/{effect.ref}/undo")
    said = text(form)
    assert "Ask for charge PO-1 to be undone?" in said and 'value="100.00"' in form.content.decode()
    assert "One other person must approve it." in said and "Don't ask" in said
    response = sam().post(f"/effects/{effect.ref}/undo", {"amount": "60.00", "reason": "duplicate", "note": ""}, follow=True)
    request = Compensation.objects.get()
    assert f"Asked to undo charge (€60.00 EUR). Someone else must approve it. Request {request.ref}." in text(response)
    assert "Undo waiting for approval" in text(response)
    inbox = ada().get("/approvals/")
    assert "Approve €60.00 EUR…" in text(inbox) and "by Sam Support" in text(inbox)
    assert inbox.context["nav"][2]["count"] == 1
    dialog = ada().get(f"/undo/{request.ref}/approve", **HTMX)
    assert "Approve refund of €60.00 EUR ?" in text(dialog) and "You are approving version 1, as shown here." in text(dialog)
    assert "<html" not in dialog.content.decode()
    response = ada().post(f"/undo/{request.ref}/approve", {"version": hidden(dialog, "version")}, follow=True)
    assert "Approved. The undo is being sent." in text(response)
    executing.execute_due()
    said = text(sam().get(f"/runs/{run.ref}/"))
    assert "€60.00 EUR of it is undone." in said and "Undone. Fake confirmed RF-" in said
    assert f"Person: Undo approved: {request.ref}" in said and f"Refund €60.00 EUR {request.ref}" in said and "An action" not in said
    assert "Undone. Fake confirmed RF-" in text(sam().get("/approvals/?tab=asked"))
    assert "Approved by Ada Approver" in text(ada().get(f"/undo/{request.ref}/"))


def test_an_undo_that_failed_says_what_the_provider_said(refunding):
    refunding.undo_answer = Answer("refused", detail="Too old.")
    request, run = asked()
    ada().post(f"/undo/{request.ref}/approve", {"version": 1})
    executing.execute_due()
    said = text(sam().get(f"/runs/{run.ref}/"))
    assert 'The undo did not work: Fake said "Too old.". The original charge is still in effect.' in said and "Undo failed" in said
    assert "Ask for it to be undone" in said


def test_ones_own_request_has_no_buttons_and_is_refused_everywhere():
    request, _ = asked(client=ada())
    said = text(ada().get(f"/undo/{request.ref}/"))
    assert "You asked for this, so someone else must approve it. 1 person can: Ben Approver." in said
    assert "Approve €100.00 EUR" not in said
    assert request.ref not in text(ada().get("/approvals/")) and request.ref in text(ada().get("/approvals/?tab=asked"))
    posted = ada().post(f"/undo/{request.ref}/approve", {"version": 1}, **HTMX)
    assert posted.status_code == 409 and "You asked for this, so someone else must approve it." in text(posted)
    over_api = call(ada(), f"/compensations/{request.ref}/decision", {"decision": "approved", "version": 1})
    assert (over_api.status_code, over_api.json()["code"]) == (409, "same_person")
    User.objects.filter(username="ada").update(is_superuser=True, is_staff=True)
    over_api = call(ada(), f"/compensations/{request.ref}/decision", {"decision": "approved", "version": 1})
    assert (over_api.status_code, over_api.json()["code"]) == (409, "same_person")
    assert now(request).state == "requested"


def test_a_superuser_without_the_group_may_neither_ask_nor_approve():
    request, _ = asked()
    root = User.objects.create_superuser("root")
    client = person("root", "")
    assert client.post(f"/undo/{request.ref}/approve", {"version": 1}).status_code == 403
    assert call(client, f"/compensations/{request.ref}/decision", {"decision": "approved", "version": 1}).status_code == 403
    assert root.is_superuser and now(request).state == "requested"


def test_support_and_auditors_see_it_and_decide_nothing():
    request, _ = asked()
    for name, group in (("Sue", "Support"), ("Ode", "Auditor"), ("Ash", "Admin")):
        client = person(name, group)
        said = text(client.get("/approvals/"))
        assert request.ref in said and "Approve €100.00 EUR…" not in said
        assert client.post(f"/undo/{request.ref}/approve", {"version": 1}).status_code == 403
        assert client.post(f"/undo/{request.ref}/reject", {"version": 1, "comment": "no"}).status_code == 403
    assert person("Ode", "Auditor").post(f"/undo/{request.ref}/withdraw", {"comment": "no"}).status_code == 403
    forged = person("Ada", "Approver", enforce_csrf_checks=True).post(f"/undo/{request.ref}/approve", {"version": 1})
    assert forged.status_code == 403
    assert now(request).state == "requested"


def test_who_may_not_ask_has_no_button_and_no_form():
    run, effect = landed()
    ode = person("Ode", "Auditor")
    assert "Ask for it to be undone" not in text(ode.get(f"/runs/{run.ref}/"))
    assert "You can see this but not ask for it to be undone." in text(ode.get(f"/effects/{effect.ref}/undo"))
    assert ode.post(f"/effects/{effect.ref}/undo", {"amount": "1.00", "reason": "duplicate"}).status_code == 403
    assert not Compensation.objects.exists()


@pytest.mark.parametrize(("here", "header"), [("search", "HX-Redirect"), ("runs/{}", "HX-Refresh")])
def test_what_was_asked_for_from_the_runs_own_page_loads_it_again(here, header):
    run, effect = landed()
    given, current = {"amount": "100.00", "reason": "duplicate"}, f"http://testserver/{here.format(run.ref)}/"
    done = sam().post(f"/effects/{effect.ref}/undo", given, HTTP_HX_CURRENT_URL=current, **HTMX)
    assert done.status_code == 204 and header in done.headers


@pytest.mark.parametrize("amount", ["-1", "0", "17,000", "17,00", "1e3", "NaN", "true", "1.005", "", "١٠"])
def test_amounts_that_are_not_meant_are_refused_and_what_was_typed_stays(amount):
    _, effect = landed(amount=3000000)
    response = sam().post(f"/effects/{effect.ref}/undo", {"amount": amount, "reason": "duplicate", "note": "see mail"}, **HTMX)
    assert response.status_code in (400, 409, 422), amount
    assert "see mail" in response.content.decode()
    assert not Compensation.objects.exists()


def test_an_amount_is_read_exactly():
    _, effect = landed(amount=3000000)
    over = sam().post(f"/effects/{effect.ref}/undo", {"amount": "10000.01", "reason": "duplicate"}, **HTMX)
    assert over.status_code == 409 and "The rule allows up to €10,000.00 EUR at a time." in text(over)
    sam().post(f"/effects/{effect.ref}/undo", {"amount": "9999.99", "reason": "duplicate"})
    assert Compensation.objects.get().amount == 999999


def test_two_approvals_say_who_has_given_one():
    request, _ = asked("6000.00", amount=600000)
    response = ada().post(f"/undo/{request.ref}/approve", {"version": 1}, follow=True)
    assert "Needs 2 approvals — 1 given by Ada Approver" in text(response)
    assert "Approve €6,000.00 EUR…" not in text(ada().get("/approvals/")), "she has given hers"
    assert "Needs 2 approvals — 1 given by Ada Approver" in text(ben().get("/approvals/"))
    ben().post(f"/undo/{request.ref}/approve", {"version": 1})
    assert now(request).state == "approved"


def test_rejecting_and_withdrawing_need_a_reason_and_keep_the_row():
    request, _ = asked()
    wrong = ada().post(f"/undo/{request.ref}/reject", {"version": 1, "comment": " "}, **HTMX)
    assert wrong.status_code == 422 and "Rejecting needs a reason." in text(wrong)
    ada().post(f"/undo/{request.ref}/reject", {"version": 1, "comment": "it was <i>owed</i>"})
    page = sam().get(f"/undo/{request.ref}/")
    assert "Rejected by Ada Approver: “it was <i>owed</i>”" in text(page).replace("&lt;", "<") and "<i>owed" not in page.content.decode()
    again_asked, _ = asked(ref="PO-2")
    assert sam().post(f"/undo/{again_asked.ref}/withdraw", {"comment": ""}, **HTMX).status_code == 422
    response = sam().post(f"/undo/{again_asked.ref}/withdraw", {"comment": "my mistake"}, follow=True)
    assert f"Withdrawn. Nothing of {again_asked.ref} was sent." in text(response)
    assert "Withdrawn by Sam Support" in text(sam().get("/approvals/?tab=decided"))


def test_decided_meanwhile_or_late_is_said_kindly():
    request, _ = asked()
    ada().post(f"/undo/{request.ref}/approve", {"version": 1})
    late = ben().post(f"/undo/{request.ref}/approve", {"version": 1}, **HTMX)
    assert late.status_code == 409 and "Already approved by Ada Approver. Your decision changed nothing." in text(late)
    other, _ = asked(ref="PO-2")
    let_time_pass(73 * 3600)
    late = ben().post(f"/undo/{other.ref}/approve", {"version": 1}, **HTMX)
    assert late.status_code == 409 and "Nobody decided within 72 h. Ask again." in text(late)


def test_names_stay_when_people_leave():
    request, _ = asked()
    ada().post(f"/undo/{request.ref}/reject", {"version": 1, "comment": "no"})
    User.objects.filter(username__in=["ada", "sam"]).delete()
    said = text(ben().get(f"/undo/{request.ref}/"))
    assert "Asked for by Sam Support" in said and "Rejected by Ada Approver" in said


def test_what_cannot_be_undone_says_why_before_anybody_asks(refunding):
    refunding.promise(irreversible={"mail": "A sent mail cannot be recalled: write another one"})
    run, effect = landed(amount=None, action="mail")
    said = text(sam().get(f"/runs/{run.ref}/"))
    assert "Can't be undone: A sent mail cannot be recalled: write another one." in said and "Ask for it to be undone" not in said
    assert "Can't be undone: A sent mail cannot be recalled" in text(sam().get(f"/effects/{effect.ref}/undo"))


def test_in_flight_it_can_be_asked_for_if_it_lands():
    run, token = new_run()
    sent = send(run, token, ref="PO-9", provider=FAKE, action="charge")
    cancel(run)
    assert "If it lands, you can ask for it to be undone." in text(sam().get(f"/runs/{run.ref}/"))
    tell(sent, "landed", external_id="CH-9")
    assert again(sent).state == "landed" and "Ask for it to be undone" in text(sam().get(f"/runs/{fresh(run).ref}/"))


def test_buttons_for_a_pushed_row_are_fetched_for_each_person():
    _, effect = landed()
    one = f"effect-actions-{effect.pk}"
    assert "Ask for it to be undone" in sam().get(f"/live/actions?id={one}").json()["items"][0]["html"]
    assert person("Ode", "Auditor").get(f"/live/actions?id={one}").json()["items"][0]["html"].strip() == ""


# The rules, under Settings


def ash():
    return person("Ash", "Admin")


def test_an_administrator_changes_a_rule_and_the_old_version_stays():
    page = ash().get("/settings/undo-rules/")
    assert "Charge at Fake in EUR" in text(page) and "two from €5,000.00 EUR on" in text(page)
    given = {
        "provider": FAKE,
        "action": "charge",
        "currency": "EUR",
        "version": "1",
        "max_amount": "50.00",
        "approvals": "2",
        "reason": "less",
    }
    response = ash().post("/settings/undo-rules/", given, follow=True)
    assert "Version 2 of the rule for charge EUR holds from now on." in text(response) and "Earlier versions (1)" in text(response)
    assert (rulebook.current(FAKE, "charge", "EUR").max_amount, rulebook.current(FAKE, "charge", "EUR").approvals) == (5000, 2)
    stale = ash().post("/settings/undo-rules/", given)
    assert stale.status_code == 409 and "it is version 2 now" in text(stale)


@pytest.mark.parametrize("field, value", [("max_amount", "17,000"), ("approvals", "0"), ("reason", " "), ("days_after_landing", "-1")])
def test_a_rule_with_a_wrong_field_is_not_kept(field, value):
    given = {"provider": FAKE, "action": "charge", "currency": "USD", "version": "0", "approvals": "1", "reason": "because"}
    assert ash().post("/settings/undo-rules/", given | {field: value}).status_code == 400
    assert rulebook.current(FAKE, "charge", "USD") is None


def test_others_see_the_rules_and_change_none():
    assert "Change it" not in text(sam().get("/settings/undo-rules/"))
    given = {"provider": FAKE, "action": "charge", "currency": "USD", "approvals": "1", "reason": "because"}
    assert sam().post("/settings/undo-rules/", given).status_code == 403


# Over the API


def call(client, path: str, body: dict | None = None, method: str = "post"):
    content = json.dumps(body) if body is not None else ""
    return getattr(client, method)(f"/api/v1{path}", content, content_type="application/json")


def test_the_whole_way_over_the_api(refunding):
    _, effect = landed()
    made = call(sam(), "/compensations", {"effect": effect.ref, "amount": 6000, "currency": "EUR", "reason": "duplicate"})
    assert made.status_code == 201, made.json()
    ref = made.json()["ref"]
    assert (made.json()["state"], made.json()["says"], made.json()["target"]) == ("requested", "Waits for a decision.", "CH-PO-1")
    repeat = call(sam(), "/compensations", {"effect": effect.ref, "amount": 6000, "currency": "EUR", "reason": "duplicate"})
    assert (repeat.status_code, repeat.json()["ref"]) == (200, ref)
    edited = call(sam(), f"/compensations/{ref}", {"version": 1, "amount": 5000}, "patch")
    assert (edited.json()["version"], edited.json()["amount"]) == (2, 5000)
    old = call(ada(), f"/compensations/{ref}/decision", {"decision": "approved", "version": 1})
    assert (old.status_code, old.json()["code"]) == (409, "stale")
    done = call(ada(), f"/compensations/{ref}/decision", {"decision": "approved", "version": 2})
    assert (done.status_code, done.json()["state"], done.json()["decisions"][0]["by"]["name"]) == (200, "approved", "Ada Approver")
    executing.execute_due()
    read = sam().get(f"/api/v1/compensations/{ref.lower()}").json()
    assert (read["state"], read["effect_state"]) == ("executed", "landed") and read["says"].startswith("Undone. Fake confirmed RF-")
    listed = sam().get(f"/api/v1/compensations?state=executed&effect={effect.ref}").json()
    assert [one["ref"] for one in listed["results"]] == [ref]
    withdrawn = call(sam(), f"/compensations/{ref}/withdrawal", {"reason": "late"})
    assert (withdrawn.status_code, withdrawn.json()["code"]) == (409, "already_decided")


@pytest.mark.parametrize("amount", [-1, 0, 1.5, "1e3", "17,000", "17000", True, 10000.01, [], {}])
def test_odd_amounts_over_the_api(amount):
    _, effect = landed(amount=3000000)
    answer = call(sam(), "/compensations", {"effect": effect.ref, "amount": amount, "currency": "EUR", "reason": "duplicate"})
    assert (answer.status_code, answer.json()["code"], answer.json()["field"]) == (400, "invalid", "amount")


def test_not_a_number_over_the_api():
    _, effect = landed()
    raw = f'{{"effect": "{effect.ref}", "amount": NaN, "currency": "EUR", "reason": "duplicate"}}'
    assert sam().post("/api/v1/compensations", raw, content_type="application/json").status_code == 400
    assert not Compensation.objects.exists()


def test_a_token_reads_and_does_nothing_else():
    from console.models import Credential
    from runs.actors import MACHINE_SCOPES

    request, _ = asked()
    _, token = Credential.issue("agents", sorted(MACHINE_SCOPES), ["*"])
    machine = person("Nobody", "")
    machine.logout()
    header = {"HTTP_AUTHORIZATION": f"Bearer {token}"}
    assert machine.get(f"/api/v1/compensations/{request.ref}", **header).status_code == 200
    _, effect = landed(ref="PO-7")
    bodies = {
        "/compensations": {"effect": effect.ref, "amount": 1, "currency": "EUR", "reason": "duplicate"},
        f"/compensations/{request.ref}/decision": {"decision": "approved", "version": 1},
        f"/compensations/{request.ref}/withdrawal": {"reason": "x"},
    }
    for path, body in bodies.items():
        answer = machine.post(f"/api/v1{path}", json.dumps(body), content_type="application/json", **header)
        assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed"), path
    assert Group.objects.filter(name="Approver").exists() and now(request).state == "requested"


def test_a_card_that_was_pushed_fetches_what_its_reader_may_do(refunding):
    request, _ = asked()
    place = f"undo-actions-{request.pk}"

    def offered(client) -> str:
        (item,) = client.get("/live/actions", {"id": place}).json()["items"]
        return item["html"]

    assert f'href="/undo/{request.ref}/approve"' in offered(ada()) and "/withdraw" not in offered(ada())
    assert f'href="/undo/{request.ref}/withdraw"' in offered(sam()) and "/approve" not in offered(sam())
    assert "someone else must approve it" in offered(sam()), "why not they: also for one person only"
    assert not offered(person("Ode", "Auditor")).strip()


def test_the_inbox_says_who_decided_and_what_became_of_it_apart(refunding):
    request, _ = asked()
    page = ada().get(f"/undo/{request.ref}/approve", **HTMX)
    ada().post(f"/undo/{request.ref}/approve", {"version": hidden(page, "version")})
    said = text(ada().get("/approvals/?tab=decided"))
    assert "Approved by Ada Approver" in said and "Approved. The undo is being sent." in said
    other, _ = asked(ref="PO-2")
    ben().post(f"/undo/{other.ref}/reject", {"version": other.version, "comment": "It was right"})
    said = text(ada().get("/approvals/?tab=decided"))
    assert "Rejected by Ben Approver" in said and "“It was right”" in said


def test_the_form_shows_how_an_amount_of_its_currency_is_written(refunding):
    allow(currency="JPY")
    _, yen = landed(ref="PO-7", amount=4640, currency="JPY")
    assert "written like 125000, without" in text(sam().get(f"/effects/{yen.ref}/undo"))
    _, euro = landed(ref="PO-8")
    assert "written like 1250.00, without" in text(sam().get(f"/effects/{euro.ref}/undo"))
