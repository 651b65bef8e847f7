"""Doing a business action again on purpose: a person opens its next occurrence, with a reason; the first declare spends it.

The provider is given `PO-1042#2`, so that a look can tell the two apart. Nothing is opened while anything of the action is in doubt.
"""

from __future__ import annotations

from django.db import IntegrityError, transaction
from django.db.models import Max, Q, QuerySet

from ledger import absences, catalogue, states
from ledger.models import Effect, Occurrence
from runs import actors, timeline, transition
from runs.actors import Actor
from runs.errors import AlreadyDecided, Conflict, InDoubt, Invalid, OccurrenceNotOpen

REASON_MAX = 2000
_HAPPENED = (states.LANDED, states.DUPLICATED, states.REVERSED)


def open_next(actor: Actor, provider: str, action: str, business_ref: str, reason: str) -> Occurrence:
    """Open the next occurrence of a business action. Raises `NotAllowed`, `Invalid`, `ProviderUnknown`, `InDoubt`, `AlreadyDecided`
    (one is open and not spent yet), `Conflict` (nothing happened yet that could be done *again*).
    """
    actor.require(actors.OCCURRENCE_OPEN, None, "open another occurrence")
    catalogue.provider(provider)
    reason = reason.strip()
    if not reason or len(reason) > REASON_MAX:
        raise Invalid(f"reason: say why it is to be done again, in at most {REASON_MAX:,} characters.", field="reason")
    actor.require_recent("open another occurrence")
    effects = Effect.objects.filter(provider=provider, action=action, business_ref=business_ref).exclude(role=states.COMPENSATION)
    try:
        with transaction.atomic(durable=True):
            _refuse_while_in_doubt(effects)
            _refuse_what_needs_none(effects, action, business_ref)
            number = _next_number(effects, provider, action, business_ref)
            opened = Occurrence.objects.create(
                provider=provider,
                action=action,
                business_ref=business_ref,
                number=number,
                reason=reason,
                opened_by=actor.id,
                opened_name=actor.name,
                opened_at=transition.clock(),
            )
            data = {"provider": provider, "action": action, "business_ref": business_ref, "occurrence": number, "reason": reason}
            timeline.append_system("occurrence.opened", actor, f"{business_ref}#{number}", data)
            return opened
    except IntegrityError as clash:
        raise _open_already(provider, action, business_ref) from clash


def in_doubt(effects: QuerySet[Effect]) -> Effect | None:
    """An effect of the action that is under way, unknown, or waits for a decision: it could still happen, or have happened."""
    unsettled = Q(state__in=[*states.OPEN, states.CONFLICTED, states.DECLARED]) | Q(unknowable=True)
    undecided = Q(state=states.ABSENT, release__in=["asked", "resend", "released"])
    return effects.filter(unsettled | undecided).select_related("run").order_by("created_at").first()


def _refuse_while_in_doubt(effects: QuerySet[Effect]) -> None:
    if (doubtful := in_doubt(effects)) is not None:
        raise InDoubt(
            f"{doubtful.ref} of {doubtful.run.ref} is {doubtful.state}: whether it happened must be known before it is done again.",
            effect=doubtful.ref,
            run=doubtful.run.ref,
            operation_id=str(doubtful.pk),
        )


def _refuse_what_needs_none(effects: QuerySet[Effect], action: str, business_ref: str) -> None:
    """Only what happened, or what a person left unsent for good, needs an occurrence of its own."""
    latest = effects.aggregate(last=Max("occurrence"))["last"]
    done = effects.filter(Q(holds_action=True, state__in=_HAPPENED) | Q(release=absences.LEFT), occurrence=latest)
    if latest is None or not done.exists():
        raise Conflict(f"{action} {business_ref} has not happened, so there is nothing to do again: a run may send it as it is.")


def _next_number(effects: QuerySet[Effect], provider: str, action: str, business_ref: str) -> int:
    opened = Occurrence.objects.filter(provider=provider, action=action, business_ref=business_ref).aggregate(last=Max("number"))["last"]
    number = max(opened or 1, effects.aggregate(last=Max("occurrence"))["last"] or 1) + 1
    same = Effect.objects.filter(provider=provider, business_ref=f"{business_ref}#{number}", occurrence=1)
    if same.exists():
        raise Conflict(f"{business_ref}#{number} is the reference of another action at {provider}: the two could not be told apart there.")
    return number


def _open_already(provider: str, action: str, business_ref: str) -> AlreadyDecided:
    found = Occurrence.objects.filter(provider=provider, action=action, business_ref=business_ref, spent_on__isnull=True).first()
    who = f"{found.opened_name} opened {business_ref}#{found.number}" if found else "Somebody opened one"
    return AlreadyDecided(f"{who} and nothing has used it yet: use that one.", occurrence=found.number if found else None)


def spend(effect: Effect) -> None:
    """Spend the occurrence that a new effect names, inside the caller's fence. Raises `OccurrenceNotOpen`, `InDoubt`."""
    if effect.occurrence == 1:
        return
    key = {"provider": effect.provider, "action": effect.action, "business_ref": effect.business_ref, "number": effect.occurrence}
    opened = Occurrence.objects.filter(**key, spent_on__isnull=True)
    if not opened.update(spent_on=effect.pk, spent_at=transition.clock()):
        raise _not_open(effect, key)
    earlier = Effect.objects.filter(provider=effect.provider, action=effect.action, business_ref=effect.business_ref)
    _refuse_while_in_doubt(earlier.exclude(role=states.COMPENSATION).exclude(pk=effect.pk))


def _not_open(effect: Effect, key: dict[str, object]) -> OccurrenceNotOpen:
    what = f"occurrence {effect.occurrence} of {effect.business_ref}"
    spent = Occurrence.objects.filter(**key, spent_on__isnull=False).select_related("spent_on__run").first()
    if spent is not None and spent.spent_on is not None:
        told = f"{what} was used by {spent.spent_on.ref} of {spent.spent_on.run.ref}. A person may open the next one."
        return OccurrenceNotOpen(told[0].upper() + told[1:], occurrence=effect.occurrence)
    return OccurrenceNotOpen(f"Nobody has opened {what}. A person opens it, with a reason.", occurrence=effect.occurrence)
