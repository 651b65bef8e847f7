"""News that something was undone at the provider: the answer to our own undo, or something that others did there, which is counted.

It is the door through which looks and webhooks tell of an effect; what does not speak of undoing passes through unchanged.
"""

from __future__ import annotations

import uuid
from dataclasses import replace

from django.db.models import Sum

from ledger import outcomes, settling, states, undoing
from ledger.models import Compensation, Effect, Reversal
from ledger.outcomes import Fact, Locked
from runs import transition
from runs.actors import Actor
from runs.ids import parse_uuid

UNDOING = ("undone_by", "undo_id", "undone_amount", "undoes")
"""What a `Found` may say of undoing, and evidence keeps in its detail."""


def tell(held: Locked, fact: Fact, actor: Actor) -> str:
    """A look or webhook about a locked effect. Returns how it was used.

    `fact.detail` may name `undone_by`, `undo_id`, `undone_amount` and `undoes` as `ledger.providers.base.Found` does.
    """
    if held.effect.role == states.COMPENSATION or held.effect.state not in states.LANDED_LIKE:
        return outcomes.tell(held, fact, actor)
    if _is_an_undo_of(held.effect, fact):
        return _tell_of_undo(held, fact, actor)
    if fact.verdict == states.REVERSED and (ours := _by_key(held.effect, fact)) is not None:
        return _answer(held, ours, fact, actor)
    total = _total_undone(held.effect, fact)
    if fact.verdict == states.REVERSED and (total is None or not _touched(held.effect)):
        whole = total is None or total >= (held.effect.landed_amount or 0)
        return outcomes.tell(held, fact, actor) if whole else _tell_total(held, fact, actor, total or 0)
    if not total:
        return outcomes.tell(held, fact, actor)
    if fact.verdict == states.LANDED:
        used_as = outcomes.tell(held, fact, actor)
        return used_as if held.effect.state not in states.LANDED_LIKE else _tell_total(held, fact, actor, total, used_as)
    return _tell_total(held, fact, actor, total)


def _total_undone(effect: Effect, fact: Fact) -> int | None:
    """How much of it the provider says was undone so far, by whomever; None: it does not say."""
    if (told := fact.detail.get("undone_amount")) is not None:
        return int(told)
    if fact.verdict == states.REVERSED and effect.landed_amount is not None:
        return effect.landed_amount if fact.amount is None else fact.amount
    return None


def _touched(effect: Effect) -> bool:
    """Whether anything of it was undone, or is being undone, that we know of."""
    ours = Compensation.objects.filter(undoing.alive(), original=effect, effect__isnull=False)
    return ours.exists() or undoing.undone_elsewhere(effect) > 0


def _tell_total(held: Locked, fact: Fact, actor: Actor, total: int, used_as: str = "") -> str:
    """So much of it was undone in all: what we know of, what our open undos explain, and the rest by others."""
    effect = held.effect
    rest = total - _known_undone(effect)
    open_ones = Effect.objects.filter(acts_on=effect, role=states.COMPENSATION, state__in=sorted(states.OPEN))
    amounts = dict(open_ones.values_list("pk", "amount"))
    fits = [pk for pk, amount in amounts.items() if amount == rest]
    if rest > 0 and len(fits) == 1:
        return _answer(held, fits[0], fact, actor)
    if rest <= 0 or rest == sum(amount or 0 for amount in amounts.values()):
        if not used_as:
            outcomes.note(held, fact, actor, settling.AGREES)
        return used_as or settling.AGREES
    return _count(held, fact, actor, rest)


def _is_an_undo_of(effect: Effect, fact: Fact) -> bool:
    """The fact is about an object that undoes this effect's, not about the effect's own."""
    return bool(fact.detail.get("undoes")) and fact.detail["undoes"] == effect.external_id and fact.amount is not None


def _tell_of_undo(held: Locked, fact: Fact, actor: Actor) -> str:
    """An undo as an object of its own that we did not ask for: it counts while it is in effect or may come to be."""
    effect, lasts = held.effect, fact.verdict in (states.LANDED, states.PENDING)
    known = Reversal.objects.filter(effect=effect, external_id=fact.external_id).first()
    if (ours := _by_key(effect, replace(fact, detail={"undo_id": fact.external_id}))) is not None:
        return outcomes.tell(outcomes.lock_in(held.run, ours), replace(fact, reference=""), actor)
    whole = known is None and fact.verdict == states.LANDED and fact.amount == effect.landed_amount
    if whole and not _touched(effect):
        return outcomes.tell(held, replace(fact, verdict=states.REVERSED, external_id="", reference=""), actor)
    if lasts:
        return _count(held, fact, actor, fact.amount or 0, fact.external_id)
    if known is None or known.failed_at is not None:
        outcomes.note(held, fact, actor, settling.AGREES)
        return settling.AGREES
    Reversal.objects.filter(pk=known.pk).update(failed_at=transition.clock())
    outcomes.note(held, fact, actor, settling.APPLIED)
    _record(held, "effect.partly_reversed_failed", fact, actor, known.amount)
    return settling.APPLIED


def _by_key(effect: Effect, fact: Fact) -> uuid.UUID | None:
    """The undo of ours that did it: by the key that we sent, or by the provider's id of it."""
    sent = Effect.objects.filter(acts_on=effect, role=states.COMPENSATION)
    if named := fact.detail.get("undone_by"):
        key = parse_uuid(str(named))
        return sent.filter(pk=key).values_list("pk", flat=True).first() if key else None
    if undo_id := fact.detail.get("undo_id"):
        return sent.filter(external_id=undo_id).values_list("pk", flat=True).first()
    # Where no key comes back: the only open one of what moved no money.
    fits = list(sent.filter(amount__isnull=True, state__in=sorted(states.OPEN)).values_list("pk", flat=True)[:2])
    return fits[0] if len(fits) == 1 else None


def _known_undone(effect: Effect) -> int:
    """Minor units of which we know that they were undone, by us or elsewhere."""
    done = Effect.objects.filter(acts_on=effect, role=states.COMPENSATION, state=states.LANDED).aggregate(sum=Sum("landed_amount"))["sum"]
    return int(done or 0) + undoing.undone_elsewhere(effect)


def _answer(held: Locked, ours: uuid.UUID, fact: Fact, actor: Actor) -> str:
    """The provider undid it because we asked: that is the evidence of our undo, and its original is what it was."""
    outcomes.note(held, fact, actor, settling.AGREES)
    own = replace(fact, verdict=states.LANDED, external_id=str(fact.detail.get("undo_id") or ""), reference="")
    return outcomes.tell(outcomes.lock_in(held.run, ours), own, actor)


def _count(held: Locked, fact: Fact, actor: Actor, amount: int, undo_id: str = "") -> str:
    """Count what others undid, once. What was approved meanwhile rests on another sum, and goes stale."""
    effect = held.effect
    undo_id = undo_id or str(fact.detail.get("undo_id") or "")
    known = Reversal.objects.filter(effect=effect, external_id=undo_id).first()
    if amount <= 0 or (known is not None and undo_id):
        outcomes.note(held, fact, actor, settling.AGREES)
        return settling.AGREES
    if known is not None:
        Reversal.objects.filter(pk=known.pk).update(amount=known.amount + amount)
    else:
        currency = fact.currency or effect.landed_currency
        Reversal(
            effect=effect, external_id=undo_id, amount=amount, currency=currency, source=fact.source, seen_at=transition.clock()
        ).save()
    outcomes.note(held, fact, actor, settling.APPLIED)
    _record(held, "effect.partly_reversed", fact, actor, amount)
    return settling.APPLIED


def _record(held: Locked, kind: str, fact: Fact, actor: Actor, amount: int) -> None:
    data = {"amount": amount, "currency": fact.currency or held.effect.landed_currency, "source": fact.source, "undo": fact.external_id}
    transition.record(held.run, kind, actor, subject=held.effect.ref, data=data)
    outcomes.follow(held.run, actor)
