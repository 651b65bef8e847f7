"""News of something we do not know: one case for each object, which a person gives to the action it belongs to, or says is not ours."""

from __future__ import annotations

import uuid
from dataclasses import replace

from django.db import transaction
from django.db.models import Q

from ledger import outcomes, reversals
from ledger.models import Effect
from reconciliation import cases, evidence, states
from reconciliation.evidence import Finding
from reconciliation.health import RECONCILER
from reconciliation.models import Case, WebhookEvent
from runs import transition
from runs.actors import Actor
from runs.errors import Invalid
from runs.ids import parse_ref, parse_uuid


def record(event: WebhookEvent) -> Case:
    """The case of a webhook about no operation that we know; later news of the same object joins the open one."""
    assert event.found is not None
    external_id = event.found.get("external_id", "")
    open_ones = Case.objects.filter(kind=states.ORPHAN, provider=event.provider, business_ref=event.reference)
    case = open_ones.exclude(state=states.SETTLED).filter(facts__external_id=external_id).first()
    if case is not None:
        case = Case.objects.select_for_update().get(pk=case.pk)
    if case is None or case.state == states.SETTLED:
        why = f"{event.provider} told us of {event.reference or event.event_id} ({event.kind}), which is of no operation that we know."
        facts = {"webhook": str(event.pk), "webhooks": [str(event.pk)], **event.found}
        return cases.open_without_run(states.ORPHAN, event.provider, why, RECONCILER, facts, event.reference)
    case.facts = {**case.facts, **event.found, "webhooks": [*case.facts["webhooks"], str(event.pk)]}
    case.version += 1
    case.save(update_fields=["facts", "version"])
    cases.trace(case, "news", RECONCILER, {"webhook": str(event.pk), "state": event.found.get("state", "")})
    return case


def assign(actor: Actor, case_id: uuid.UUID, finding: Finding) -> tuple[Case, str]:
    """It belongs to one of our actions: everything the webhooks said becomes evidence of that effect, judged as if it had come for it.

    Returns the case and how the news was used. What does not match (amount, currency) conflicts and goes to a person, like any other.
    """
    target = _target(finding)
    with transaction.atomic(durable=True):
        held_effect = outcomes.lock(target.pk)
        held = cases.lock(case_id)
        cases.check_free(actor, held.case)
        evidence.check(held.case, finding)
        if held_effect.effect.provider != held.case.provider:
            raise Invalid(
                f"{target.ref} is at {target.provider}, and this came from {held.case.provider}. Name an action at {held.case.provider}.",
                field="belongs_to",
            )
        if held.case.facts.get("amount") is not None:
            actor.require_recent("say whose money this is")
        used = [_apply(actor, held.case, held_effect, event) for event in _events(held.case)]
        told = finding.as_json() | {"belongs_to": target.ref, "operation_id": str(target.pk), "used_as": used[-1] if used else ""}
        cases.close(held, actor, told)
        transition.record(held_effect.run, "case.orphan_assigned", actor, subject=held.case.ref, data={"effect": target.ref})
        return held.case, f"Now evidence of {target.ref}: {target.ref} is {held_effect.effect.state}."


def _target(finding: Finding) -> Effect:
    text = finding.belongs_to.strip()
    ref, pk = parse_ref(text, "E"), parse_uuid(text)
    effect = Effect.objects.filter(Q(ref=ref) if ref else Q(pk=pk)).first() if ref or pk else None
    if effect is None:
        raise Invalid(f"belongs_to: no action of ours is called {text[:60]!r}. Use its reference such as E-7K2M9Q4TXA.", field="belongs_to")
    return effect


def _events(case: Case) -> list[WebhookEvent]:
    ids = case.facts.get("webhooks") or [case.facts["webhook"]]
    return list(WebhookEvent.objects.filter(pk__in=ids).order_by("received_at", "id"))


def _apply(actor: Actor, case: Case, held: outcomes.Locked, event: WebhookEvent) -> str:
    """The reference is not ours (that is why it was an orphan): this person says whose it is, and it is kept beside the fact."""
    fact = event.as_fact()
    given = {"reference": fact.reference, "assigned_by": actor.name, "assigned_by_id": actor.id, "case": case.ref}
    used_as = reversals.tell(held, replace(fact, reference="", detail={**fact.detail, **given}), actor)
    WebhookEvent.objects.filter(pk=event.pk).update(used_as=used_as)
    return used_as
