"""The calls about effects and accounts, as a worker and a reader meet them over HTTP."""

from __future__ import annotations

import csv
import io
import uuid

import pytest

from ledger.models import Attempt, Effect
from tests.wire import PROBLEM, Api, claimed, effect_body, person, sent, token, worker

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def api() -> Api:
    return worker()


def problem(answer, status: int, code: str) -> dict:
    assert (answer.status_code, answer.headers["Content-Type"], answer.data["code"]) == (status, PROBLEM, code), answer.content
    return answer.data


def test_another_occurrence_is_opened_by_a_person_and_used_by_a_run(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    support = person("Support")
    again = {"provider": "supplier", "action": "create_order", "business_ref": "PO-1042", "reason": "It was stolen."}
    problem(support.post("/occurrences", again), 409, "in_doubt")
    report(api, go["operation_id"], external_id="S-1")
    problem(api.post("/occurrences", again), 403, "not_allowed")
    assert problem(support.post("/occurrences", {**again, "reason": " "}), 400, "invalid")["field"] == "reason"
    opened = support.post("/occurrences", again)
    assert (opened.status_code, opened.data["occurrence"], opened.data["reference"]) == (201, 2, "PO-1042#2")
    problem(support.post("/occurrences", again), 409, "already_decided")
    second = sent(api, run, lease, occurrence=2, ordinal=2)
    assert (second["state"], second["reference"]) == ("sending", "PO-1042#2")


def test_left_in_place_is_a_recorded_decision(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    support = person("Support")
    path = f"/effects/{go['operation_id']}/left-in-place"
    problem(support.post(path, {"reason": "They keep it."}), 409, "invalid")
    report(api, go["operation_id"], external_id="S-1")
    problem(api.post(path, {"reason": "They keep it."}), 403, "not_allowed")
    left = support.post(path, {"reason": "They keep it."})
    assert (left.status_code, left.data["left_in_place_by"], left.data["state"]) == (200, "Support", "landed")
    assert left.data["sentence"].endswith("Left in place by Support.")
    (event,) = [one for one in api.get(f"/runs/{run['id']}/events").data["results"] if one["kind"] == "effect.evidence"]
    assert event["data"]["reason"] == "They keep it."


def report(api: Api, operation_id: str, verdict: str = "landed", **values):
    return api.post(f"/effects/{operation_id}/outcome", {"attempt": 1, "verdict": verdict, **values})


def test_the_go_ahead_says_all_that_the_sender_needs(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    assert (go["state"], go["attempt"], go["idempotency_key"], go["reference"]) == ("sending", 1, go["operation_id"], "PO-1042")
    assert 9 < go["send_within_s"] <= 10 and 29 < go["answer_within_s"] <= 30
    assert api.get(f"/runs/{run['id']}").data["status"] == "writing"


def test_a_lost_answer_is_given_again_to_the_owner_of_the_nonce_alone(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    path = f"/runs/{run['id']}/effects"
    again = api.post(path, effect_body(lease))
    assert (again.status_code, again.data["attempt"], again.data["operation_id"]) == (201, 1, go["operation_id"])
    assert again.data["send_within_s"] <= go["send_within_s"]
    stranger = problem(api.post(path, effect_body(lease, nonce="another-process-has-this")), 409, "in_doubt")
    assert (stranger["operation_id"], stranger["run"]) == (go["operation_id"], run["ref"])
    assert Attempt.objects.count() == 1


def test_an_idempotency_key_hands_nobody_a_second_permission(api: Api):
    run, lease = claimed(api)
    api.post(f"/runs/{run['id']}/steps", {"lease": lease, "key": "order", "kind": "tool"})
    path, key = f"/runs/{run['id']}/effects", {"Idempotency-Key": "the same"}
    assert api.post(path, effect_body(lease), **key).status_code == 201
    problem(api.post(path, effect_body(lease, nonce="another-process-has-this"), **key), 409, "in_doubt")


def test_an_outcome_is_a_fact_for_anybody_who_was_there(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    first = report(api, go["operation_id"], external_id="S-1", amount=12500, currency="EUR", response={"id": "S-1"})
    assert (first.data["used_as"], first.data["effect"]["state"]) == ("applied", "landed")
    assert first.data["effect"]["sentence"].startswith("Landed. Supplier confirmed this order at ")
    assert first.data["effect"]["response"] == {"id": "S-1"}
    assert report(api, go["operation_id"], external_id="S-1", amount=12500, currency="EUR").data["used_as"] == "agrees"
    against = report(api, go["operation_id"], verdict="refused").data
    assert (against["used_as"], against["effect"]["state"]) == ("conflicts", "conflicted")
    assert "says it was refused" in against["effect"]["sentence"]
    problem(api.post(f"/effects/{go['operation_id']}/outcome", {"attempt": 2, "verdict": "landed"}), 404, "not_found")


def test_a_known_operation_is_answered_with_its_outcome(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    report(api, go["operation_id"], external_id="S-1")
    again = api.post(f"/runs/{run['id']}/effects", effect_body(lease, nonce="another-process-has-this"))
    assert (again.status_code, again.data["state"], again.data["external_id"]) == (200, "landed", "S-1")
    problem(api.post(f"/runs/{run['id']}/effects", effect_body(lease, amount=1)), 409, "payload_mismatch")


def test_another_run_is_told_who_holds_the_action(api: Api):
    one, lease_one = claimed(api)
    go = sent(api, one, lease_one)
    two, lease_two = claimed(api)
    api.post(f"/runs/{two['id']}/steps", {"lease": lease_two, "key": "order", "kind": "tool"})
    path, body = f"/runs/{two['id']}/effects", effect_body(lease_two)
    held = problem(api.post(path, body), 409, "in_doubt")
    assert (held["run"], held["operation_id"]) == (one["ref"], go["operation_id"])
    report(api, go["operation_id"], external_id="S-1")
    assert problem(api.post(path, body), 409, "already_landed")["effect"] == go["ref"]
    reused = api.post(path, body | {"if_exists": "reuse"})
    assert (reused.status_code, reused.data["run"], reused.data["external_id"]) == (200, one["ref"], "S-1")
    account = api.get(f"/runs/{two['id']}/account").data
    assert [line["ref"] for line in account["relied_on"]] == [go["ref"]] and account["totals"]["effects_total"] == 0


def test_declaring_and_beginning_are_two_calls_when_asked(api: Api):
    run, lease = claimed(api)
    declared = sent(api, run, lease, begin=False)
    assert declared["state"] == "declared" and "attempt" not in declared
    begun = api.post(f"/effects/{declared['ref'].lower()}/begin", {"lease": lease, "nonce": "f" * 32})
    assert (begun.status_code, begun.data["state"], begun.data["attempt"]) == (201, "sending", 1)
    problem(api.post(f"/effects/{uuid.uuid4()}/begin", {"lease": lease, "nonce": "f" * 32}), 404, "not_found")


def test_an_unknown_provider_is_refused_by_name(api: Api):
    run, lease = claimed(api)
    api.post(f"/runs/{run['id']}/steps", {"lease": lease, "key": "order", "kind": "tool"})
    refused = problem(api.post(f"/runs/{run['id']}/effects", effect_body(lease, provider="nobody")), 409, "provider_unknown")
    assert refused["field"] == "provider" and "supplier" in refused["detail"]


def test_an_effect_is_read_by_operation_id_and_reference_in_any_form(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    for text in (go["operation_id"], go["ref"]):
        for form in (text, text.upper(), text.lower(), text.replace("-", "")):
            assert api.get(f"/effects/{form}").data["operation_id"] == go["operation_id"]
    for text in ("E-0000000000", str(uuid.uuid4()), run["ref"], "nothing"):
        problem(api.get(f"/effects/{text}"), 404, "not_found")
    problem(worker(name="other", agents=["refunds"]).get(f"/effects/{go['ref']}"), 403, "not_allowed")


def test_effects_are_listed_and_narrowed(api: Api):
    run, lease = claimed(api)
    landed = sent(api, run, lease)
    report(api, landed["operation_id"], external_id="S-1")
    flying = sent(api, run, lease, ordinal=2, business_ref="PO-2000", nonce="e" * 32)

    def found(**query) -> list[str]:
        return [line["operation_id"] for line in api.get("/effects", **query).data["results"]]

    assert found() == [flying["operation_id"], landed["operation_id"]]
    assert found(state="landed") == found(q="PO-1") == found(q="S-1") == found(external_id="S-1") == [landed["operation_id"]]
    assert found(state="landed,sending", provider="supplier", action="create_order") == [flying["operation_id"], landed["operation_id"]]
    assert found(business_ref="PO-2000") == found(q=flying["ref"]) == [flying["operation_id"]]
    assert found(run=run["ref"]) == found(q=run["id"]) == [flying["operation_id"], landed["operation_id"]]
    mine = api.get(f"/runs/{run['ref']}/effects", limit=1).data
    assert [line["operation_id"] for line in mine["results"]] == [flying["operation_id"]]
    assert len(api.get(f"/runs/{run['ref']}/effects", limit=1, cursor=mine["next"]).data["results"]) == 1


def test_the_account_adds_up_as_json_and_as_csv(api: Api):
    run, lease = claimed(api)
    go = sent(api, run, lease)
    draft = api.get(f"/runs/{run['id']}/account").data
    assert (draft["version"], draft["totals"]["in_flight"], draft["totals"]["effects_total"]) == (0, 1, 1)
    report(api, go["operation_id"], external_id="=cmd()")
    api.post(f"/runs/{run['id']}/finish", {"lease": lease, "outcome": "completed"})
    account = api.get(f"/runs/{run['ref']}/account", format="json").data
    assert (account["version"], account["final"], account["totals"]["landed"]) == (1, True, 1)
    sheet = api.get(f"/runs/{run['ref']}/account", format="csv")
    assert sheet.headers["Content-Type"] == "text/csv; charset=utf-8"
    (line,) = csv.DictReader(io.StringIO(sheet.content.decode()))
    assert (line["bucket"], line["ref"], line["amount_minor"]) == ("landed", go["ref"], "12500")
    assert line["external_id"].startswith("'=")


def test_the_five_places_of_a_cancel_have_five_sentences(api: Api):
    support = person("Support")

    def cancelled_effect(when: str) -> dict:
        run, lease = claimed(api)
        go = sent(api, run, lease, business_ref=f"PO-{when}", begin=when != "before")
        if when == "after outcome":
            report(api, go["operation_id"], external_id="S-1")
        support.post(f"/runs/{run['id']}/cancellation", {"mode": "cancel"})
        if when == "late outcome":
            report(api, go["operation_id"], external_id="S-1")
        if when == "unknown":
            report(api, go["operation_id"], verdict="unknown")
        return api.get(f"/effects/{go['operation_id']}").data

    said = {when: cancelled_effect(when) for when in ("before", "in flight", "unknown", "late outcome", "after outcome")}
    assert said["before"]["sentence"].startswith("Not sent. This order was stopped before it left us.")
    assert said["in flight"]["sentence"].startswith("In flight. We had already sent this order")
    assert said["unknown"]["sentence"].startswith("We don't know yet.")
    assert said["late outcome"]["sentence"].startswith("Landed. We learned it after the cancel.")
    assert said["after outcome"]["sentence"].startswith("Landed before the cancel.")
    relative = {when: effect["confirmed_relative_to_cancel"] for when, effect in said.items()}
    assert (relative["late outcome"], relative["after outcome"], relative["in flight"]) == ("after", "before", None)


def test_reading_many_effects_takes_few_queries(api: Api, django_assert_max_num_queries):
    from ledger import api as calls
    from tests.makers import WORKER

    run, lease = claimed(api)
    for n in range(12):
        sent(api, run, lease, ordinal=n, business_ref=f"PO-{n}", nonce=uuid.uuid4().hex)
    assert Effect.objects.count() == 12
    with django_assert_max_num_queries(9):
        calls.list_effects(WORKER, given={})


def test_a_token_of_its_own_agents_reads_no_other(api: Api):
    run, lease = claimed(api)
    sent(api, run, lease)
    other = Api(token("other", agents=["refunds"]))
    assert other.get("/effects").data["results"] == []
    problem(other.get(f"/runs/{run['id']}/account"), 403, "not_allowed")
    assert problem(other.get("/effects", state="nonsense"), 400, "invalid")["field"] == "state"
