"""How an effect stands as far as undoing goes: what names it at the provider, how much is left, who may not approve, and the digest that
binds an approval. It reads; sums and digests mean something only under the lock of the original's run."""

from __future__ import annotations

import uuid
from datetime import datetime

from django.db.models import BigIntegerField, F, Q, Sum
from django.db.models.functions import Coalesce

from ledger import prospects, rulebook, rules, states, undo_states
from ledger.models import Compensation, Effect, Evidence, Reversal
from ledger.prospects import SURPLUS, Standing, Wanted
from ledger.rules import Verdict
from runs.ids import digest
from runs.models import Event, Run

NONE = uuid.UUID(int=0)


def alive() -> Q:
    """Requests whose sum is taken: approved, on their way, carried out and not failed, or unknown."""
    sent = Q(state=undo_states.EXECUTED) & ~Q(effect__state__in=sorted(undo_states.FAILED))
    return Q(state__in=[undo_states.APPROVED, undo_states.EXECUTING]) | sent


def committed(effect: Effect, target: str, besides: uuid.UUID | None = None) -> int:
    """Minor units of one object that are undone, being undone or allowed to be, by us or elsewhere."""
    amount = Coalesce(F("effect__landed_amount"), F("amount"), output_field=BigIntegerField())
    ours = Compensation.objects.filter(alive(), original=effect, target=target).exclude(pk=besides or NONE)
    return int(ours.aggregate(sum=Sum(amount))["sum"] or 0) + undone_elsewhere(effect)


def undone_elsewhere(effect: Effect) -> int:
    """Minor units that the provider undid without us."""
    return int(Reversal.objects.filter(effect=effect, failed_at__isnull=True).aggregate(sum=Sum("amount"))["sum"] or 0)


def taken(effect: Effect, target: str, besides: uuid.UUID | None = None) -> bool:
    """Whether any undo of the object is done or on its way (the question for what moved no money)."""
    return Compensation.objects.filter(alive(), original=effect, target=target).exclude(pk=besides or NONE).exists()


def surplus_of(effect: Effect) -> frozenset[str]:
    """The objects of a duplicated effect that a person named as too many, the last word counts."""
    if effect.state != states.DUPLICATED:
        return frozenset()
    last = Evidence.objects.filter(effect=effect, source="person", verdict=SURPLUS).order_by("-at", "-id").first()
    return frozenset(last.detail.get("external_ids", ())) if last is not None else frozenset()


def judge(effect: Effect, wanted: Wanted, now: datetime, besides: uuid.UUID | None = None) -> Verdict:
    """The rules' verdict on a wish, as everything stands now."""
    target = prospects.target_of(effect, wanted.external_id)
    standing = Standing(
        committed=committed(effect, target, besides) if effect.landed_amount is not None else 0,
        taken=taken(effect, target, besides),
        surplus=surplus_of(effect),
    )
    terms = rulebook.current(effect.provider, effect.action, effect.landed_currency)
    return rules.judge(terms, prospects.asked(effect, wanted, now, standing))


def digest_of(request: Compensation, effect: Effect, rule_version: int) -> str:
    """Binds an approval: the original and its outcome, what the provider undid elsewhere, what is asked and why, the rule's version."""
    original = [str(effect.pk), effect.state, effect.known_position, effect.external_id, effect.landed_amount, effect.landed_currency]
    undo = [request.provider, request.action, request.target, request.amount, request.currency, request.reason, request.note]
    return digest([str(request.pk), request.version, original, undone_elsewhere(effect), undo, rule_version])


def excluded(run: Run, effect: Effect, requested_by: str, editors: list[str], witnesses: set[str] | None = None) -> dict[str, str]:
    """Who may not approve, by person's id, and the sentence that says why. No role is exempt. Without `witnesses` it reads them."""
    why = {run.owner: "You started this run, so someone else must approve it."}
    if run.root is not None:
        why[run.root.owner] = why[run.owner]
    for person in witnesses_of([effect])[effect.pk] if witnesses is None else witnesses:
        why[person] = "You recorded the evidence for this action, so someone else must approve it."
    why |= dict.fromkeys(editors, "You edited this request, so someone else must approve it.")
    return why | {requested_by: "You asked for this, so someone else must approve it."}


def witnesses_of(effects: list[Effect]) -> dict[uuid.UUID, set[str]]:
    """Who recorded evidence about each of these effects, or settled a case of it: the ids of people, in two queries."""
    found: dict[uuid.UUID, set[str]] = {effect.pk: set() for effect in effects}
    for effect_id, person in Evidence.objects.filter(effect__in=found, actor_type="person").values_list("effect", "actor_id"):
        found[effect_id].add(person)
    known = {effect.ref: effect.pk for effect in effects}
    acts = Event.objects.filter(run__in={effect.run_id for effect in effects}, kind__startswith="case.", actor_type="person")
    for ref, person in acts.values_list("data__effect", "actor_id"):
        if ref in known:
            found[known[ref]].add(person)
    return found
