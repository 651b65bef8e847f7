"""The calls about cases, looks and webhooks. Each parses, calls one domain function and renders; none knows a rule."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any

from drf_spectacular.utils import extend_schema
from rest_framework import parsers
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.views import APIView

from ledger.queries import read_effect
from reconciliation import cases, files, findings, on_request, queries, schema, states, webhooks
from reconciliation.evidence import Finding
from reconciliation.models import Case, CaseEvent, CaseFile
from reconciliation.queries import CaseFilter
from runs import actors
from runs.actors import Actor
from runs.calls import Answer, call, described, refusals
from runs.errors import Invalid, NotFound, ProviderUnknown
from runs.parsing import Given
from runs.shapes import iso

CLAIMS = ("claimed_by_other", "already_decided")


@call(takes=schema.CasesQuery, answers={200: schema.CasePage}, tag="cases")
def list_cases(actor: Actor, given: Given) -> Answer:
    """List cases, the latest opened first; settled ones only when asked for."""
    names = ("state", "kind", "provider", "run", "q")
    wanted = CaseFilter(**{name: given[name] for name in names if name in given})
    page = queries.find_cases(actor, wanted, given.get("cursor"), given["limit"])
    return Answer(200, {"results": [case_shape(case) for case in page.items], "next": page.next, "previous": page.previous})


@call(answers={200: schema.CaseDetail}, tag="cases")
def get_case(actor: Actor, case: str, given: Given) -> Answer:
    """Read a case with every act on it."""
    found = queries.read_case(actor, case)
    acts = CaseEvent.objects.filter(case=found).order_by("at", "id")
    kept = [file_shape(one) for one in CaseFile.objects.filter(case=found).select_related("case").order_by("at", "id")]
    return Answer(200, {**case_shape(found), "acts": [_act(act) for act in acts], "files": kept})


@call(takes=schema.ClaimCaseBody, answers={200: schema.CaseShown}, refuses=CLAIMS, tag="cases")
def claim_case(actor: Actor, case: str, given: Given) -> Answer:
    """Claim a case for 30 idle minutes: a person only. One wins; the other is told who has it, and may take it over explicitly."""
    return Answer(200, _fresh(cases.claim(actor, _id(actor, case), given["take_over"])))


@call(
    takes=schema.SettlementBody,
    answers={200: schema.CaseSettled},
    refuses=(*CLAIMS, "evidence_required", "reauthentication_required"),
    tag="cases",
    example={
        "verdict": "happened",
        "evidence": {"external_id": "S-10933", "seen_where": "provider_dashboard", "seen_at": "2026-03-02T14:02:07Z"},
    },
)
def settle_case(actor: Actor, case: str, given: Given) -> Answer:
    """Record what a person found, with evidence that is not free text alone.

    `settled`; or `kept`: it is evidence now, and the case stays open (`why` says what is missing); or `awaiting_second`: another person
    must confirm.
    """
    evidence = {name: value for name, value in (given.get("evidence") or {}).items() if value is not None}
    finding = Finding(
        verdict=given["verdict"],
        sender_gone=given.get("sender_gone") or "",
        surplus=tuple(given.get("surplus") or ()),
        belongs_to=given.get("belongs_to") or "",
        files=tuple(given.get("files") or ()),
        **evidence,
    )
    made = findings.settle(actor, _id(actor, case), finding)
    return Answer(200, {"outcome": made.outcome, "why": made.why or None, "case": _fresh(made.case)})


@call(
    takes=schema.ConfirmationBody,
    answers={200: schema.CaseShown},
    refuses=("already_decided", "same_person", "reauthentication_required"),
    tag="cases",
)
def confirm_case(actor: Actor, case: str, given: Given) -> Answer:
    """The second person's word on a finding. Disagreeing puts the case back in the queue."""
    return Answer(200, _fresh(findings.confirm(actor, _id(actor, case), given["agree"])))


@call(takes=schema.PassBody, answers={200: schema.CaseShown}, refuses=CLAIMS, tag="cases")
def pass_case(actor: Actor, case: str, given: Given) -> Answer:
    """I can't tell: give the case back to the queue with what is known so far."""
    return Answer(200, _fresh(findings.pass_on(actor, _id(actor, case), given["notes"])))


@call(answers={202: schema.LookAsked}, tag="effects")
def look_now(actor: Actor, effect: str, given: Given) -> Answer:
    """Ask the provider about an effect at once, instead of at the next time of the schedule."""
    return Answer(202, {"asked": findings.check_now(actor, read_effect(actor, effect).pk)})


@call(takes=schema.OpenCaseBody, answers={201: schema.CaseShown, 200: schema.CaseShown}, tag="cases")
def open_case(actor: Actor, effect: str, given: Given) -> Answer:
    """Open the case of an effect in doubt before its ceiling: a person only. 200 with the case that is open already.

    Also for one that could not be known, when somebody knows where to look after all.
    """
    case, opened = on_request.open_case(actor, read_effect(actor, effect).pk, given["why"])
    return Answer(201 if opened else 200, _fresh(case))


def _id(actor: Actor, text: str) -> uuid.UUID:
    return queries.read_case(actor, text).pk


def _fresh(case: Case) -> dict[str, Any]:
    return case_shape(Case.objects.select_related("run", "effect").get(pk=case.pk))


def case_shape(case: Case) -> dict[str, Any]:
    """A case (with its run and effect loaded)."""
    claimed = case.state == states.CLAIMED
    return {
        "id": str(case.pk),
        "ref": case.ref,
        "kind": case.kind,
        "state": case.state,
        "version": case.version,
        "run": case.run.ref if case.run else None,
        "effect": case.effect.ref if case.effect else None,
        "operation_id": str(case.effect_id) if case.effect_id else None,
        "provider": case.provider or None,
        "business_ref": case.business_ref or None,
        "amount": case.amount,
        "currency": case.currency or None,
        "why": case.why,
        "facts": case.facts,
        "verdicts": list(states.VERDICTS[case.kind]),
        "opened_at": iso(case.opened_at),
        "reopened": case.reopened,
        "claim": {"by": case.claimed_by, "name": case.claimed_name, "until": iso(case.claimed_until)} if claimed else None,
        "finding": case.finding,
        "settled_at": iso(case.settled_at),
        "settled_by": case.settled_by or None,
    }


def _act(act: CaseEvent) -> dict[str, Any]:
    return {
        "kind": act.kind,
        "actor": {"type": act.actor_type, "id": act.actor_id, "name": act.actor_name},
        "data": act.data,
        "at": iso(act.at),
    }


# Files: a form with one field, so that no file has to be put into JSON


class FileView(APIView):
    """Who asks is judged as for every call; only the body is another one."""

    parser_classes = (parsers.MultiPartParser,)

    @extend_schema(
        operation_id="keep_file",
        summary="Keep a file as evidence with a case",
        description="A form (multipart/form-data) with one `file`. A person only. Name its id in `files` of the settlement.",
        tags=["cases"],
        request={"multipart/form-data": schema.FileGiven},
        responses={201: schema.FileKept, **refusals(CLAIMS)},
    )
    def post(self, request: Request, case: str) -> Response:
        request.actor.require(actors.CASE_SETTLE, None, "keep evidence with a case")  # type: ignore[attr-defined]
        found = queries.read_case(request.actor, case)  # type: ignore[attr-defined]
        given = request.FILES.get("file")
        if given is None or set(request.data) != {"file"} or len(request.FILES.getlist("file")) != 1:
            raise Invalid("file: send a form (multipart/form-data) with exactly one field, `file`.", field="file")
        kept = files.keep(request.actor, found.pk, given.name or "", given.chunks())  # type: ignore[attr-defined]
        return Response(file_shape(kept), status=201)


def file_shape(kept: CaseFile) -> dict[str, Any]:
    """A file that is kept with a case."""
    return {
        "id": str(kept.pk),
        "name": kept.name,
        "size": kept.size,
        "sha256": kept.sha256,
        "by": kept.kept_name,
        "at": iso(kept.at),
        "url": f"/cases/{kept.case.ref}/files/{kept.pk}",
    }


# Webhooks: the signature is the permission, and it is over the raw bytes


class RawParser(parsers.BaseParser):
    """Whatever the provider sends, as bytes."""

    media_type = "*/*"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        return stream.read(webhooks.RAW_BYTES_MAX + 1)


@call(answers={200: schema.WebhookStored}, tag="webhooks")
def receive_webhook(provider: str, headers: Mapping[str, str], raw: bytes) -> Answer:
    """What providers send: verified by its signature over the raw bytes, stored, and only then answered 200. Processed soon after."""
    try:
        webhooks.receive(provider, headers, raw)
    except ProviderUnknown as unknown:
        raise NotFound(unknown.detail) from unknown
    return Answer(200, {"stored": True})


class WebhookView(APIView):
    """The provider's signature is judged by the domain; no token or session is needed or looked at."""

    authentication_classes = ()
    permission_classes = ()
    parser_classes = (RawParser,)

    @described("POST", receive_webhook)
    def post(self, request: Request, provider: str) -> Response:
        answer = receive_webhook.function(provider, request.headers, request.data or b"")
        return Response(answer.body, status=answer.status)
