"""What cannot be taken back needs a recent proof of who is asking, at every door; and the way there loses nothing."""

import re

import pytest
from django.test import Client

from reconciliation.models import Case
from runs.models import Approval, CancelRequest
from tests.console.browsing import HTMX, hidden, person, text
from tests.console.test_pages_approvals import asked
from tests.console.test_pages_cases import GOOD, conflicting
from tests.makers import fresh, new_run, settle
from tests.signing import prove
from tests.wire import PROBLEM

pytestmark = pytest.mark.usefixtures("database")

LONG_AGO = 16 * 60
PASSWORD = "correct horse battery"


def late(name: str = "Sam", group: str = "Support", **options) -> Client:
    """Signed in, but too long ago; they have a password."""
    client = person(name, group, proved_s_ago=LONG_AGO, **options)
    user = client.get("/help/").wsgi_request.user
    user.set_password(PASSWORD)
    user.save()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    prove(client, LONG_AGO)
    return client


def give_password(client: Client, answer, password: str = PASSWORD):
    """Follow the way to the proof and give it; the answer of the page that asks."""
    assert answer.status_code == 302 and answer.url.startswith("/accounts/reauthenticate/?next=")
    page = client.get(answer.url)
    assert "Is it still you, " in text(page) and "Nothing was done yet" in text(page)
    assert hidden(page, "next") in answer.wsgi_request.path or hidden(page, "next").startswith("/cases/")
    return client.post(answer.url, {"password": password, "next": hidden(page, "next")})


def terminate(client: Client, run, **options):
    page = client.get(f"/runs/{run.ref}/terminate")
    form = {name: hidden(page, name) for name in ("seen", "plan_digest")}
    return client.post(f"/runs/{run.ref}/terminate", {"reason": "it hangs", "typed": run.ref, **form}, **options)


def test_terminating_asks_again_comes_back_with_what_was_typed_and_then_works():
    run, _ = new_run()
    client = late()
    refused = terminate(client, run)
    assert fresh(run).state == "running" and not CancelRequest.objects.exists()
    done = give_password(client, refused)
    assert done.status_code == 302 and done.url == f"/runs/{run.ref}/terminate"
    page = client.get(done.url)
    assert ">it hangs</textarea>" in page.content.decode() and "Nothing was done yet: look once more" in text(page)
    assert "it hangs" not in client.get(done.url).content.decode(), "told once"
    assert terminate(client, run).status_code == 302 and fresh(run).state == "terminated"


def test_a_dialog_is_led_there_too():
    run, _ = new_run()
    answer = terminate(late(), run, **HTMX)
    assert answer.status_code == 403 and re.match(r"/accounts/reauthenticate/\?next=%2Fruns%2FR-\w+%2Fterminate$", answer["HX-Redirect"])
    assert fresh(run).state == "running"


def test_a_wrong_password_proves_nothing():
    run, _ = new_run()
    client = late()
    answer = give_password(client, terminate(client, run), "wrong")
    assert answer.status_code == 200 and 'aria-invalid="true"' in answer.content.decode()
    assert terminate(client, run).url.startswith("/accounts/reauthenticate/") and fresh(run).state == "running"


def test_cancelling_never_asks():
    run, _ = new_run()
    assert late().post(f"/runs/{run.ref}/cancel", {"reason": "stop"}).status_code == 302
    assert fresh(run).cancel_position is not None


def test_deciding_asks_again_and_keeps_the_comment():
    _, approval = asked()
    client = late("Ada", "Approver")
    page = client.get(f"/approvals/{approval.pk}/reject")
    refused = client.post(f"/approvals/{approval.pk}/reject", {"comment": "Too many pumps", "digest": hidden(page, "digest")})
    assert Approval.objects.get(pk=approval.pk).state == "requested"
    back = give_password(client, refused).url
    assert "Too many pumps" in client.get(back).content.decode()
    client.post(back, {"comment": "Too many pumps", "digest": hidden(page, "digest")})
    assert Approval.objects.get(pk=approval.pk).state == "rejected"


def test_settling_money_asks_again_and_keeps_the_finding():
    case = conflicting()
    client = late()
    client.post(f"/cases/{case.ref}/claim")
    refused = client.post(f"/cases/{case.ref}/finding", {"verdict": "happened", "external_id": "S-77", "notes": "in their books", **GOOD})
    assert Case.objects.get(pk=case.pk).state == "claimed"
    done = give_password(client, refused)
    assert done.url == f"/cases/{case.ref}/"
    page = client.get(done.url).content.decode()
    assert 'value="S-77"' in page and "in their books</textarea>" in page and 'value="happened" required checked' in page


def test_what_is_wrong_is_said_before_anybody_proves_anything():
    run, _ = new_run()
    assert late().post(f"/runs/{run.ref}/terminate", {"reason": "x", "typed": "R-1"}).status_code == 422
    assert late("Ode", "Auditor").post(f"/runs/{run.ref}/terminate", {"reason": "x", "typed": run.ref}).status_code == 403


def test_the_api_says_it_with_a_code_of_its_own():
    run, _ = new_run()
    _, approval = asked()
    case = conflicting()
    sam, ada = late(), late("Ada", "Approver")
    sam.post(f"/cases/{case.ref}/claim")
    calls = (
        (sam, f"/runs/{run.ref}/cancellation", {"mode": "terminate", "reason": "x", "plan_digest": "x"}),
        (ada, f"/approvals/{approval.pk}/decision", {"decision": "approved", "digest": approval.digest}),
        (sam, f"/cases/{case.ref}/settlement", {"verdict": "happened", "evidence": {"external_id": "S-1"}}),
    )
    for client, path, body in calls:
        answer = client.post(f"/api/v1{path}", body, content_type="application/json")
        assert (answer.status_code, answer["Content-Type"]) == (403, PROBLEM), answer.content
        assert answer.json()["code"] == "reauthentication_required" and answer.json()["reauthenticate"] == "/accounts/reauthenticate/"
    assert fresh(run).state == "running" and Approval.objects.get(pk=approval.pk).state == "requested"


def test_signing_in_counts_as_a_proof_until_the_window_is_over(settings):
    run, _ = new_run()
    late()
    client = Client()
    assert client.post("/accounts/login/", {"login": "sam", "password": PASSWORD}).status_code == 302
    settings.REAUTHENTICATE_AFTER_S = 0
    assert terminate(client, run).url.startswith("/accounts/reauthenticate/")
    settings.REAUTHENTICATE_AFTER_S = 900
    assert terminate(client, run).status_code == 302 and fresh(run).state == "terminated"


def test_a_session_that_says_nothing_about_it_is_too_old():
    run, _ = new_run()
    client = late()
    session = client.session
    del session["account_authentication_methods"]
    session.save()
    assert terminate(client, run).url.startswith("/accounts/reauthenticate/")


def test_the_second_word_on_a_case_about_money_asks_again():
    case = conflicting()
    settle(case, "cannot_be_known")
    answer = late("Olga").post(f"/cases/{case.ref}/confirm", {"agree": "yes"})
    assert answer.status_code == 302 and answer.url == f"/accounts/reauthenticate/?next=%2Fcases%2F{case.ref}%2F"
    assert Case.objects.get(pk=case.pk).state == "awaiting_second"
