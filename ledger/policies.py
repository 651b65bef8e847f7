"""What administrators require of actions: whether one needs an approval. Read inside the fence; changed by administrators, with a trace."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from django.db import connection, transaction

from ledger.models import ActionPolicy, Effect
from ledger.money import exponent
from runs import actors, timeline, transition
from runs.actors import Actor
from runs.errors import Invalid

# One predicate for the hot path's INSERT and for everything else. No amount cannot be shown to be under a limit, so it needs one.
NEEDS_APPROVAL = """EXISTS (
    SELECT 1 FROM ledger_actionpolicy p WHERE p.provider = %s AND p.action = %s
    AND (p.needs_approval = 'always' OR (p.needs_approval = 'over' AND coalesce(%s > p.over_major * %s, true))))"""


def parameters(effect: Effect) -> tuple[Any, ...]:
    """The parameters of `NEEDS_APPROVAL` for an effect."""
    unit = 10 ** exponent(effect.currency) if effect.currency else 1
    return (effect.provider, effect.action, effect.amount, unit)


def needs_approval(effect: Effect) -> bool:
    """Whether the effect may be sent only with an approval, as the policy stands now."""
    with connection.cursor() as cursor:
        cursor.execute(f"SELECT {NEEDS_APPROVAL}", parameters(effect))  # noqa: S608 - a constant of this module
        return bool(cursor.fetchone()[0])


def require_approval(
    actor: Actor, provider: str, action: str, needs: str, over_major: Decimal | None = None, reason: str = ""
) -> ActionPolicy:
    """Set what an action needs: never, always, or over an amount in major units. Recorded in the system stream."""
    actor.require(actors.POLICY_CHANGE, None, "change action policies")
    if needs not in ActionPolicy.NEEDS:
        raise Invalid(f"needs_approval must be one of {', '.join(ActionPolicy.NEEDS)}.", field="needs_approval")
    if needs == "over" and (over_major is None or over_major < 0):
        raise Invalid("over needs an amount in major units, from 0.", field="over")
    with transaction.atomic(durable=True):
        policy, _ = ActionPolicy.objects.select_for_update().get_or_create(provider=provider, action=action)
        before = _told(policy)
        policy.needs_approval, policy.over_major = needs, over_major if needs == "over" else None
        policy.version += 1
        policy.changed_by, policy.changed_at = actor.name, transition.clock()
        policy.save()
        data = {"before": before, "after": _told(policy), "reason": reason, "version": policy.version}
        timeline.append_system("policy.changed", actor, f"{provider}.{action}", data)
        return policy


def _told(policy: ActionPolicy) -> dict[str, str | None]:
    limit = policy.over_major
    return {"needs_approval": policy.needs_approval, "over_major": f"{limit.normalize():f}" if limit is not None else None}
