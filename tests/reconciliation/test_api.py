"""The calls about cases, looks and webhooks, as people, readers and providers meet them over HTTP."""

from __future__ import annotations

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from ledger import outcomes
from reconciliation import cases, states
from reconciliation.models import Case
from runs.actors import system
from tests.signing import prove
from tests.wire import PROBLEM, Api, check, claimed, person, sent, worker

pytestmark = pytest.mark.usefixtures("database")
PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)


@pytest.fixture
def api() -> Api:
    return worker()


@pytest.fixture
def case(api: Api) -> Case:
    """An unknown effect whose sender never spoke, and its case."""
    from django.db import transaction

    run, lease = claimed(api)
    go = sent(api, run, lease)
    api.post(f"/effects/{go['operation_id']}/outcome", {"attempt": 1, "verdict": "unknown"})
    with transaction.atomic(durable=True):
        held = outcomes.lock(go["operation_id"])
        return cases.open_for_effect(held, states.CEILING, "Asking did not settle it.", system("test"))


def problem(answer, status: int, code: str) -> dict:
    assert (answer.status_code, answer.headers["Content-Type"], answer.data["code"]) == (status, PROBLEM, code), answer.content
    return answer.data


FOUND = {"verdict": "happened", "evidence": {"external_id": "S-9", "seen_where": "provider_dashboard", "seen_at": "2026-03-02T14:02:07Z"}}


def test_a_case_is_listed_read_claimed_and_settled(api: Api, case: Case):
    support, auditor = person("Support"), person("Auditor")
    (line,) = auditor.get("/cases").data["results"]
    assert (line["ref"], line["kind"], line["amount"], line["currency"], line["claim"]) == (case.ref, "ceiling", 12500, "EUR", None)
    assert "happened" in line["verdicts"]
    for text in (case.ref, case.ref.lower().replace("-", ""), str(case.pk).upper()):
        assert auditor.get(f"/cases/{text}").data["id"] == str(case.pk)
    problem(auditor.post(f"/cases/{case.ref}/claim"), 403, "not_allowed")
    assert support.post(f"/cases/{case.ref}/claim").data["claim"]["name"] == "Support"
    without = {"verdict": "happened", "evidence": {"notes": "I think so."}}
    problem(support.post(f"/cases/{case.ref}/settlement", without), 422, "evidence_required")
    settled = support.post(f"/cases/{case.ref}/settlement", FOUND)
    assert (settled.data["outcome"], settled.data["case"]["state"]) == ("settled", "settled")
    effect = auditor.get(f"/effects/{line['effect']}").data
    assert (effect["state"], effect["how_we_know"], effect["external_id"]) == ("landed", "person", "S-9")
    assert "reference S-9, seen in provider dashboard at 2 Mar 2026 14:02:07 UTC" in effect["sentence"]
    assert [act["kind"] for act in auditor.get(f"/cases/{case.ref}").data["acts"]][-1] == "settled"
    assert auditor.get("/cases").data["results"] == []
    assert len(auditor.get("/cases", state="settled", kind="ceiling", q="PO-1").data["results"]) == 1


def test_one_claim_wins_and_taking_over_is_explicit(api: Api, case: Case):
    support = person("Support")
    from django.contrib.auth.models import Group, User

    other = User.objects.create(username="olga", first_name="Olga")
    other.groups.set([Group.objects.get(name="Support")])
    olga = Api()
    olga.client.force_login(other)
    prove(olga.client)
    support.post(f"/cases/{case.ref}/claim")
    assert problem(olga.post(f"/cases/{case.ref}/claim"), 409, "claimed_by_other")["by"] == "Support"
    problem(olga.post(f"/cases/{case.ref}/settlement", FOUND), 409, "claimed_by_other")
    assert olga.post(f"/cases/{case.ref}/claim", {"take_over": True}).data["claim"]["name"] == "Olga"
    assert olga.post(f"/cases/{case.ref}/pass", {"notes": "I can't tell."}).data["claim"] is None
    unknowable = support.post(f"/cases/{case.ref}/settlement", {"verdict": "cannot_be_known"})
    assert unknowable.data["outcome"] == "awaiting_second"
    problem(support.post(f"/cases/{case.ref}/confirmation", {"agree": True}), 409, "same_person")
    assert olga.post(f"/cases/{case.ref}/confirmation", {"agree": True}).data["state"] == "settled"
    effect = support.get(f"/effects/{case.effect_id}").data
    assert (effect["unknowable"], effect["sentence"].startswith("It can't be known.")) == (True, True)


def test_tokens_read_cases_of_their_own_agents_and_settle_none(api: Api, case: Case):
    assert len(api.get("/cases").data["results"]) == 1
    other = worker(name="other", agents=["refunds"])
    assert other.get("/cases").data["results"] == []
    problem(other.get(f"/cases/{case.ref}"), 403, "not_allowed")
    problem(api.post(f"/cases/{case.ref}/claim"), 403, "not_allowed")
    problem(api.post(f"/cases/{case.ref}/settlement", FOUND), 403, "not_allowed")
    problem(worker(name="blind", scopes=["run:work"]).get("/cases"), 403, "not_allowed")


def test_a_file_is_kept_by_a_form_and_handed_out_as_a_download(case: Case, tmp_path, settings):
    settings.STORAGES = {**settings.STORAGES, "evidence": {**settings.STORAGES["evidence"], "OPTIONS": {"location": tmp_path}}}
    support = person("Support")
    path = f"/api/v1/cases/{case.ref}/files"
    kept = support.client.post(path, {"file": SimpleUploadedFile("../../shot.png", PNG, "text/html")})
    assert (kept.status_code, kept.json()["name"], kept.json()["size"]) == (201, "shot.png", len(PNG)), kept.content
    check("POST", path, 201, "application/json", kept.json())
    settled = support.post(f"/cases/{case.ref}/settlement", {**FOUND, "files": [kept.json()["id"]]})
    assert settled.data["outcome"] == "settled", settled.content
    auditor = person("Auditor")
    (told,) = auditor.get(f"/cases/{case.ref}").data["files"]
    handed_out = auditor.client.get(told["url"])
    assert handed_out.content == PNG
    assert handed_out.headers["Content-Disposition"] == 'attachment; filename="shot.png"'
    assert (handed_out.headers["Content-Type"], handed_out.headers["X-Content-Type-Options"]) == ("image/png", "nosniff")
    assert Client().get(told["url"]).status_code == 302, "signed out: to the sign-in page"


@pytest.mark.parametrize("form", [{}, {"file": "no file"}, {"other": SimpleUploadedFile("a.png", b"x")}])
def test_a_form_without_its_file_is_refused_by_name(case: Case, form):
    answer = person("Support").client.post(f"/api/v1/cases/{case.ref}/files", form)
    assert (answer.status_code, answer.json()["field"]) == (400, "file")


def test_a_token_keeps_no_file(api: Api, case: Case):
    answer = api.client.post(f"/api/v1/cases/{case.ref}/files", {"file": SimpleUploadedFile("a.png", PNG)}, headers=api.headers)
    assert (answer.status_code, answer.json()["code"]) == (403, "not_allowed")


def test_a_body_beyond_the_limit_is_refused_before_it_is_read(case: Case, settings):
    settings.EVIDENCE_BYTES_MAX = 10
    large = SimpleUploadedFile("a.png", PNG + b"x" * 300_000)
    assert person("Support").client.post(f"/api/v1/cases/{case.ref}/files", {"file": large}).status_code == 413


def test_a_case_before_its_ceiling(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    api.post(f"/effects/{go['operation_id']}/outcome", {"attempt": 1, "verdict": "unknown"})
    support = person("Support")
    opened = support.post(f"/effects/{go['ref']}/case", {"why": "The customer is on the phone."})
    assert (opened.status_code, opened.data["why"]) == (201, "The customer is on the phone.")
    assert support.post(f"/effects/{go['ref']}/case").status_code == 200
    problem(api.post(f"/effects/{go['ref']}/case"), 403, "not_allowed")


def test_an_orphan_and_surplus_are_settled_over_the_api_too(api: Api, case: Case):
    support = person("Support")
    answer = support.post(f"/cases/{case.ref}/settlement", {"verdict": "surplus_named", "surplus": ["S-1"]})
    assert problem(answer, 400, "invalid")["field"] == "verdict"
    answer = support.post(f"/cases/{case.ref}/settlement", {"verdict": "belongs_to", "belongs_to": "E-0000000000"})
    assert problem(answer, 400, "invalid")["field"] == "belongs_to"


def test_a_look_can_be_asked_for_at_once(case: Case):
    assert person("Support").post(f"/effects/{case.effect_id}/look").data == {"asked": True}
