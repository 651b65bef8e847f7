"""The calls about effects and accounts. Each parses, calls one domain function and renders; none knows a rule."""

from __future__ import annotations

import uuid
from typing import Any

from rest_framework.renderers import BaseRenderer, JSONRenderer

from ledger import accounts, intents, leaving, occurrences, operations, outcomes, queries, schema, shapes
from ledger.models import Effect
from ledger.operations import Intent, Permission
from ledger.queries import EffectFilter
from runs.actors import Actor
from runs.calls import Answer, CallView, call, run_id
from runs.errors import NotFound
from runs.ids import parse_ref, parse_uuid
from runs.models import Approval
from runs.parsing import Given
from runs.queries import read_run

REFUSES = (
    "cancelled",
    "lease_lost",
    "in_doubt",
    "already_landed",
    "payload_mismatch",
    "occurrence_not_open",
    "approval_required",
    "approval_mismatch",
    "needs_compensation",
    "absent_ask",
    "already_decided",
    "provider_unknown",
)
GO_AHEAD = {201: schema.Permitted, 200: schema.EffectShown}


@call(
    takes=schema.EffectBody,
    answers=GO_AHEAD,
    refuses=REFUSES,
    tag="worker",
    example={
        "lease": "5f1c…",
        "nonce": "0f8fad5bd9cb469fa16570867728950e",
        "step": "order",
        "ordinal": 1,
        "provider": "supplier",
        "action": "create_order",
        "business_ref": "PO-1042",
        "amount": 12500,
        "currency": "EUR",
        "request": {"lines": [{"sku": "PUMP-3", "quantity": 12}]},
    },
)
def begin_effect(actor: Actor, run: str, given: Given) -> Answer:
    """Ask for the permission to send: one durable "sending", for the owner of the nonce only.

    201 `sending`: send now, once, within `send_within_s`. The same call with the same nonce may be repeated when its answer was lost; with
    another nonce it is refused as `in_doubt`. 201 `declared`: `begin` was false. 200: the outcome is known already; send nothing. An
    `Idempotency-Key` is not honoured here: a stored go-ahead handed to a second process would be a second permission to send.
    """
    intent = Intent(
        step=given["step"],
        ordinal=given["ordinal"],
        provider=given["provider"],
        action=given["action"],
        business_ref=given["business_ref"],
        occurrence=given["occurrence"],
        if_exists=given["if_exists"],
        amount=given.get("amount"),
        currency=given.get("currency") or "",
        request=given["request"],
        send_within_s=given["send_within_s"],
        answer_within_s=given["answer_within_s"],
        role=given["role"],
        approval=_approval(run_id(run), given.get("approval")),
    )
    return _permitted(intents.declare(actor, run_id(run), given["lease"], given["nonce"], intent, given["begin"]))


@call(takes=schema.BeginBody, answers=GO_AHEAD, refuses=REFUSES, tag="worker")
def begin_declared(actor: Actor, operation_id: str, given: Given) -> Answer:
    """Ask for the permission to send an effect that was declared, or that is absent and may be sent again."""
    return _permitted(_begun(actor, _operation(operation_id), given))


def _begun(actor: Actor, operation: uuid.UUID, given: Given) -> Permission:
    run = Effect.objects.filter(pk=operation).values_list("run_id", flat=True).first()
    approval = _approval(run, given.get("approval"))
    return intents.begin(actor, operation, given["lease"], given["nonce"], approval)


def _approval(run: uuid.UUID | None, named: str | None) -> uuid.UUID | None:
    """The approval that a plan names by its id or by its key in the run. One that does not exist fits nothing."""
    if not named:
        return None
    found = parse_uuid(named)
    if found is None:
        found = Approval.objects.filter(run=run, key=named).values_list("pk", flat=True).first()
    return found or uuid.UUID(int=0)


def _permitted(permission: Permission) -> Answer:
    if permission.kind in (operations.KNOWN, operations.RELIED):
        return Answer(200, shapes.effect_shape(permission.effect))
    return Answer(201, shapes.permission_shape(permission))


@call(
    takes=schema.OutcomeBody,
    answers={200: schema.OutcomeUsed},
    tag="worker",
    example={"attempt": 1, "verdict": "landed", "external_id": "S-10933", "amount": 12500, "currency": "EUR"},
)
def outcome(actor: Actor, operation_id: str, given: Given) -> Answer:
    """Report what came of an attempt: a fact, kept without any lease and however late.

    `verdict`: `landed`, `refused` (a definite no), `pending` (taken, not final), `not_sent` (no byte left), `unknown` (anything else).
    """
    used_as, effect = outcomes.report(
        actor,
        _operation(operation_id),
        given["attempt"],
        given["verdict"],
        external_id=given.get("external_id") or "",
        amount=given.get("amount"),
        currency=given.get("currency") or "",
        response=given.get("response"),
        observed_at=given.get("observed_at"),
    )
    return Answer(200, {"used_as": used_as, "effect": shapes.effect_shape(effect)})


def _operation(text: str) -> uuid.UUID:
    """The operation id that a path names by id or reference, in any case. Raises `NotFound`."""
    found = parse_uuid(text)
    if found is not None:
        return found
    ref = parse_ref(text, "E")
    named = Effect.objects.filter(ref=ref).values_list("pk", flat=True).first() if ref else None
    if named is None:
        raise NotFound(f"No effect is called {text[:60]!r}. Use its operation id, or its reference such as E-7K2M9Q4TXA.")
    return named


@call(takes=schema.EffectsQuery, answers={200: schema.EffectPage}, tag="effects")
def list_effects(actor: Actor, given: Given) -> Answer:
    """List effects, newest first."""
    names = ("state", "provider", "action", "run", "business_ref", "external_id", "q")
    wanted = EffectFilter(**{name: given[name] for name in names if name in given})
    return _page(queries.find_effects(actor, wanted, given.get("cursor"), given["limit"]))


@call(takes=schema.RunEffectsQuery, answers={200: schema.EffectPage}, tag="effects")
def list_run_effects(actor: Actor, run: str, given: Given) -> Answer:
    """List the effects of a run, newest first."""
    return _page(queries.effects_of(read_run(actor, run), given.get("state", ()), given.get("cursor"), given["limit"]))


def _page(page: queries.Page[Effect]) -> Answer:
    return Answer(200, {"results": shapes.effect_shapes(page.items), "next": page.next, "previous": page.previous})


@call(answers={200: schema.EffectShown}, tag="effects")
def get_effect(actor: Actor, effect: str, given: Given) -> Answer:
    """Read an effect with its evidence, named by its operation id or its reference."""
    return Answer(200, shapes.effect_shape(queries.read_effect(actor, effect)))


@call(takes=schema.AccountQuery, answers={200: schema.AccountShown, (200, "text/csv"): str})
def get_account(actor: Actor, run: str, given: Given) -> Answer:
    """Read the account of a run: the last one issued, or a draft (version 0) while the run is open.

    `format=csv` gives one line for each effect, safe to open in a spreadsheet.
    """
    return Answer(200, accounts.latest(read_run(actor, run)))


@call(
    takes=schema.OccurrenceBody,
    answers={201: schema.OccurrenceOpened},
    refuses=("in_doubt", "already_decided", "provider_unknown"),
    tag="effects",
    example={"provider": "supplier", "action": "create_order", "business_ref": "PO-1042", "reason": "The first delivery was stolen."},
)
def open_occurrence(actor: Actor, given: Given) -> Answer:
    """Open one more time of a business action, on purpose: a person only, with a reason.

    Refused while anything of the action is in doubt. The first effect that names the occurrence spends it; the provider is given the
    reference with `#2` and so on.
    """
    opened = occurrences.open_next(actor, given["provider"], given["action"], given["business_ref"], given["reason"])
    return Answer(201, shapes.occurrence_shape(opened))


@call(takes=schema.ReasonBody, answers={200: schema.EffectShown}, tag="effects")
def leave_in_place(actor: Actor, effect: str, given: Given) -> Answer:
    """Record the decision not to undo a landed effect: a person only, with a reason. It forbids no later undo."""
    found = queries.read_effect(actor, effect)
    return Answer(200, shapes.effect_shape(leaving.leave_in_place(actor, found.pk, given["reason"])))


class AccountCsv(BaseRenderer):
    """An account as a spreadsheet."""

    media_type = "text/csv"
    format = "csv"
    charset = "utf-8"

    def render(self, data: Any, accepted_media_type: str | None = None, renderer_context: Any = None) -> bytes:
        return accounts.as_csv(data).encode()


class AccountView(CallView):
    renderer_classes = [JSONRenderer, AccountCsv]
