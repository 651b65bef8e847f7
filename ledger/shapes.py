"""How an effect and the permission to send it look as JSON: rendered from rows, the same for API and in-process door."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from ledger import sentences
from ledger.facts import Records, effect_facts, records_of
from ledger.models import Effect, Evidence, Occurrence
from ledger.operations import Permission
from runs import transition, wording
from runs.shapes import iso

Json = dict[str, Any]


def effect_shapes(effects: Iterable[Effect], with_bodies: bool = False) -> list[Json]:
    """Several effects (with their runs loaded), in three queries. `with_bodies`: the kept excerpts of what providers answered, too."""
    found = list(effects)
    records, now = records_of(found), transition.clock()
    return [_effect(effect, records[effect.pk], effect_facts(effect, now, records[effect.pk]), with_bodies) for effect in found]


def effect_shape(effect: Effect) -> Json:
    """One effect, with all that is known of it."""
    fresh = Effect.objects.select_related("run").get(pk=effect.pk)
    return effect_shapes([fresh], with_bodies=True)[0]


def _effect(effect: Effect, records: Records, facts: sentences.EffectFacts, with_bodies: bool) -> Json:
    return {
        "operation_id": str(effect.pk),
        "ref": effect.ref,
        "run": effect.run.ref,
        "step": effect.step_key,
        "ordinal": effect.ordinal,
        "provider": effect.provider,
        "action": effect.action,
        "business_ref": effect.business_ref,
        "occurrence": effect.occurrence,
        "reference": effect.provider_reference,
        "amount": effect.amount,
        "currency": effect.currency or None,
        "role": effect.role,
        "state": effect.state,
        "version": effect.version,
        "unknowable": effect.unknowable,
        "confirmed_relative_to_cancel": facts.relative,
        "landed_amount": effect.landed_amount,
        "how_we_know": effect.how_we_know or None,
        "known_by": effect.known_by or None,
        "known_at": iso(effect.known_at),
        "external_id": effect.external_id or None,
        "provider_message": effect.provider_message or None,
        "created_at": iso(effect.created_at),
        "sent_at": iso(effect.sent_at),
        "answer_by": iso(effect.answer_by),
        "attempts": len(records.attempts),
        "next_look_at": iso(effect.next_look_at),
        "looks": effect.looks,
        "left_in_place_by": effect.left_in_place_by or None,
        "surplus": list(facts.surplus_refs),
        "response": _response(records.evidence),
        "evidence": [evidence_shape(one, with_bodies) for one in records.evidence],
        "sentence": wording.plain(sentences.sentence(facts)),
        "detail": wording.plain(sentences.detail(facts)) or None,
    }


def evidence_shape(evidence: Evidence, with_body: bool) -> Json:
    """One observation of what happened."""
    return {
        "source": evidence.source,
        "verdict": evidence.verdict,
        "used_as": evidence.used_as,
        "attempt": evidence.attempt,
        "external_id": evidence.external_id or None,
        "amount": evidence.amount,
        "currency": evidence.currency or None,
        "provider_time": iso(evidence.provider_time),
        "at": iso(evidence.at),
        "http_status": evidence.http_status,
        "body_sha256": evidence.body_sha256 or None,
        "by": {"type": evidence.actor_type, "id": evidence.actor_id, "name": evidence.actor_name},
        **({"body": evidence.body or None} if with_body else {}),
    }


def _response(evidence: list[Evidence]) -> Any:
    """What the sender last reported as the provider's response, as far as it was kept as JSON (masked, at most 4 KB)."""
    told = [one.body for one in evidence if one.source == "sender" and one.body]
    try:
        return json.loads(told[-1]) if told else None
    except ValueError:
        return None


def occurrence_shape(opened: Occurrence) -> Json:
    """One more time of a business action."""
    return {
        "provider": opened.provider,
        "action": opened.action,
        "business_ref": opened.business_ref,
        "occurrence": opened.number,
        "reference": f"{opened.business_ref}#{opened.number}",
        "reason": opened.reason,
        "opened_by": opened.opened_name,
        "opened_at": iso(opened.opened_at),
    }


def permission_shape(permission: Permission) -> Json:
    """The go-ahead, to the owner of the nonce only: how long writing may still begin, and when silence will mean unknown."""
    effect, attempt, now = permission.effect, permission.attempt, permission.now
    answer = {
        "operation_id": str(effect.pk),
        "ref": effect.ref,
        "idempotency_key": effect.idempotency_key,
        "reference": effect.provider_reference,
        "occurrence": effect.occurrence,
        "state": permission.kind,
    }
    if attempt is None or now is None:
        return answer
    return answer | {
        "attempt": attempt.number,
        "send_by": iso(attempt.send_by),
        "answer_by": iso(attempt.answer_by),
        "send_within_s": max(0.0, (attempt.send_by - now).total_seconds()),
        "answer_within_s": max(0.0, (attempt.answer_by - now).total_seconds()),
    }
