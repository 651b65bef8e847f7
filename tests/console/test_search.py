"""One box for everything that has a name."""

from __future__ import annotations

import json
import uuid

import pytest
from django.db import connection

from reconciliation.models import Case
from tests import undo
from tests.console.browsing import person, text
from tests.fakes import FAKE
from tests.makers import new_run, open_cases, send, sweep, tell

pytestmark = pytest.mark.usefixtures("database")
HOSTILE = (
    '"><script>alert(1)</script>',
    "' OR 1=1 --",
    "%_\\",
    '$.* ? (@ == "x")',
    '"',
    "\u202eevil",
    "x" * 5000,
    "*",
    "R-",
    "\x1b[31m",
    "a:b=c:d",
    "=:",
)


def find(q: str, who: str = "Support", **more: str):
    return person("Sam" if who == "Support" else who, who).get("/search/", {"q": q, **more})


def goes_to(q: str) -> str:
    response = find(q)
    assert response.status_code == 302, text(response)
    return response.headers["Location"]


def a_case(fake) -> Case:
    fake.promise(lookup="none")
    run, token = new_run(business_ref="PO-1")
    tell(send(run, token, ref="PO-1", provider=FAKE), "unknown")
    sweep()
    return open_cases()[0]


@pytest.mark.parametrize("form", [str, str.lower, lambda ref: ref.replace("-", ""), lambda ref: f"  {ref} "])
def test_a_reference_in_any_form_leads_to_the_run(form):
    run, _ = new_run()
    assert goes_to(form(run.ref)) == f"/runs/{run.ref}/"


def test_ids_and_the_other_references_lead_to_what_they_name():
    run, token = new_run()
    effect = send(run, token).effect
    assert goes_to(str(run.pk)) == f"/runs/{run.ref}/"
    assert goes_to(effect.ref) == goes_to(str(effect.pk)) == goes_to(effect.pk.hex) == f"/effects/{effect.ref}"


def test_a_case_is_found_by_its_reference_and_by_its_business_reference(fake):
    case = a_case(fake)
    assert goes_to(case.ref) == f"/cases/{case.ref}/"
    assert case.ref in text(find("PO-1", all="1"))


def test_a_business_reference_of_one_run_leads_there_and_its_start_lists():
    run, token = new_run(business_ref="PO-1042")
    send(run, token, ref="PO-1042")
    other, _ = new_run(business_ref="PO-10421")
    assert goes_to("PO-1042") == f"/runs/{run.ref}/"
    said = text(find("PO-104"))
    assert run.ref in said and other.ref in said and "business reference starts so" in said


def test_an_order_that_two_runs_worked_on_is_listed():
    one, _ = new_run(business_ref="PO-7")
    two, _ = new_run(business_ref="PO-7")
    said = text(find("PO-7"))
    assert one.ref in said and two.ref in said


def test_a_providers_id_leads_to_its_action():
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "landed", external_id="S-9931")
    assert goes_to("S-9931") == f"/effects/{sent.effect.ref}"


def test_agents_and_labels_are_found():
    run, _ = new_run(agent="refunds-agent", labels={"customer": "4711", "team": "north"})
    new_run(labels={"customer": "4712"})
    assert "/runs/?agent=refunds-agent" in find("refunds").content.decode()
    for q in ("4711", "customer=4711", "customer: 4711", "north"):
        said = text(find(q))
        assert run.ref in said and "Labels" in said, q
    assert "Nothing is called “customer=4713”." in text(find("customer=4713"))


def test_what_looks_like_a_reference_may_be_somebodys_order():
    run, _ = new_run(business_ref="E1234567890")
    assert goes_to("E1234567890") == f"/runs/{run.ref}/"


@pytest.mark.parametrize("q", HOSTILE)
def test_hostile_text_finds_nothing_and_is_shown_as_text(q):
    new_run(business_ref="PO-1", labels={"a": "b"})
    response = find(q)
    assert response.status_code == 200 and "Nothing is called" in text(response)
    assert "<script>alert" not in response.content.decode() and "\u202e" not in response.content.decode()


def test_a_hostile_name_that_is_found_is_shown_as_text():
    new_run(business_ref="<script>alert(1)</script>", title="<b hx-get=/x>")
    new_run(business_ref="<script>alert(1)</script>")
    body = find("<script>alert").content.decode()
    assert "&lt;script&gt;" in body and "<script>alert" not in body and "<b hx-get" not in body


def test_nul_does_no_harm_and_nothing_asks_for_a_name():
    assert find("\x00").status_code == 200 and "Look for a reference" in text(find(""))


def test_only_those_who_may_read_may_search():
    assert person("Nobody", "").get("/search/?q=PO").status_code == 403


def test_the_box_is_on_every_page_and_keeps_what_was_asked():
    assert "data-search" in person().get("/runs/").content.decode()
    assert 'value="PO-&lt;1"' in find("PO-<1").content.decode()


def plan(sql: str, *values: object) -> str:
    """How the database would look it up when it would rather not read the whole table."""
    with connection.cursor() as cursor:
        cursor.execute("SET enable_seqscan = off")
        cursor.execute(f"EXPLAIN (FORMAT JSON) {sql}", values)
        told = json.dumps(cursor.fetchone()[0])
        cursor.execute("RESET enable_seqscan")
    return told


def test_labels_are_looked_up_through_their_index():
    from console.search import _LABELLED

    sql = _LABELLED.replace("%s::jsonpath", "'$.* ? (@ == \"x\")'::jsonpath").replace("%s", "5")
    assert "run_labels" in plan(sql)


def test_an_unknown_id_names_nothing():
    assert "Nothing is called" in text(find(str(uuid.uuid4())))


def test_a_request_to_undo_leads_to_what_it_would_undo(refunding):
    _, effect = undo.landed()
    request = undo.ask(effect)
    assert goes_to(request.ref) == f"/effects/{effect.ref}"
