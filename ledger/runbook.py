"""What the life of a run needs of its effects: the ledger's side of the port `runs/book.py`, inside the caller's transaction."""

from __future__ import annotations

import uuid
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db.models import Max

from ledger import accounts, outcomes, states, timetable
from ledger.lines import attempt_line, effect_line
from ledger.models import Attempt, Effect
from ledger.outcomes import Fact
from runs import transition
from runs.actors import Actor
from runs.book import Holdings, Line
from runs.models import Run


class RunBook:
    """Implements `runs.book.Book`."""

    def holdings(self, runs: Iterable[Run]) -> dict[uuid.UUID, Holdings]:
        by_run = {run.pk: run for run in runs}
        held = {pk: Holdings() for pk in by_run}
        live = self._live_attempts(by_run)
        # What undoes an effect belongs to its request: stopping the run does not touch it.
        effects = (
            Effect.objects.filter(run__in=by_run)
            .exclude(role=states.COMPENSATION)
            .exclude(state__in=[states.WITHHELD, states.REFUSED, states.ABSENT])
        )
        for effect in effects.order_by("created_at", "operation_id"):
            effect.run = by_run[effect.run_id]
            _place(held[effect.run_id], effect, live.pop(effect.pk, []))
        for operation_id, attempts in live.items():
            effect = Effect.objects.get(pk=operation_id)
            effect.run = by_run[effect.run_id]
            _place(held[effect.run_id], effect, attempts)
        return held

    def _live_attempts(self, by_run: dict[uuid.UUID, Run]) -> dict[uuid.UUID, list[Attempt]]:
        live: dict[uuid.UUID, list[Attempt]] = {}
        alive = Attempt.objects.filter(run__in=by_run, stopped_at__isnull=True).exclude(effect__role=states.COMPENSATION)
        for attempt in alive.order_by("sent_at"):
            live.setdefault(attempt.effect_id, []).append(attempt)
        return live

    def withhold(self, run: Run, why: str, actor: Actor) -> list[Line]:
        lines = []
        for pk in Effect.objects.filter(run=run, state=states.DECLARED).order_by("pk").values_list("pk", flat=True):
            held = outcomes.lock_in(run, pk)
            held.effect.withheld_why = why
            outcomes.move(held, states.WITHHELD, actor, {"why": why}, alone=True)
            lines.append(effect_line(_of(held.effect, run)))
        return lines

    def give_up(self, run: Run, epoch: int | None, why: str, actor: Actor) -> None:
        sending = Attempt.objects.filter(run=run, state=states.SENDING).exclude(effect__role=states.COMPENSATION)
        if epoch is not None:
            sending = sending.filter(epoch=epoch)
        for pk in sorted(set(sending.values_list("effect_id", flat=True))):
            outcomes.silence(outcomes.lock_in(run, pk), why, actor, alone=True)

    def sender_stopped(self, run: Run, epoch: int, how: str, actor: Actor) -> None:
        alive = Attempt.objects.filter(run=run, epoch=epoch, stopped_at__isnull=True).exclude(effect__role=states.COMPENSATION)
        for pk in sorted(set(alive.values_list("effect_id", flat=True))):
            held = outcomes.lock_in(run, pk)
            now = transition.clock()
            for attempt in held.attempts:
                if attempt.epoch == epoch and attempt.stopped_at is None:
                    attempt.stopped_at, attempt.stopped_how = now, how
                    fact = Fact(source="supervisor" if how == "supervisor" else "sender", verdict="sender_stopped")
                    outcomes.keep(held.effect, fact, "applied", actor, attempt.number)
            outcomes.silence(held, "its sender has stopped", actor, alone=True)
            timetable.look_when_it_can_tell(held.effect, now)

    def may_act_until(self, run: Run) -> datetime | None:
        alive = Attempt.objects.filter(run=run, stopped_at__isnull=True, answer_by__gt=transition.clock())
        return alive.exclude(effect__role=states.COMPENSATION).aggregate(last=Max("answer_by"))["last"]

    def step_open(self, run: Run, step_key: str) -> bool:
        open_states = states.OPEN | {states.CONFLICTED}
        return Effect.objects.filter(run=run, step_key=step_key, state__in=open_states, unknowable=False).exists()

    def condition_met(self, run: Run, condition: dict[str, Any]) -> bool:
        if condition["kind"] == "operation":
            effect = Effect.objects.filter(pk=condition["operation_id"]).first()
            return effect is None or effect.unknowable or (effect.state in states.KNOWN and effect.release != "asked")
        asked = Effect.objects.filter(run=run, release="asked").exists
        return not run.in_flight and not run.in_doubt and not asked()

    def has_effect(self, run: Run, operation_id: uuid.UUID) -> bool:
        return Effect.objects.filter(pk=operation_id, run=run).exists()

    def effects_of(self, run: Run) -> list[Line]:
        ours = Effect.objects.filter(run=run).exclude(role=states.COMPENSATION)
        return [effect_line(_of(effect, run)) for effect in ours.order_by("created_at")]

    def leave_unasked(self, runs: Iterable[Run]) -> None:
        # Nobody was asked: that the run ended is no answer to whether another run may send it.
        Effect.objects.filter(run__in=[run.pk for run in runs], release__in=["asked", "resend", "released"], state=states.ABSENT).update(
            release="unasked"
        )

    def issue_accounts(self, runs: Iterable[Run]) -> None:
        accounts.issue(runs)


def _of(effect: Effect, run: Run) -> Effect:
    effect.run = run
    return effect


def _place(held: Holdings, effect: Effect, live: list[Attempt]) -> None:
    """Put an effect where a receipt lists it. An attempt whose sender may still act is listed whatever its effect's state."""
    held.in_flight.extend(attempt_line(effect, attempt) for attempt in live)
    if effect.state == states.DECLARED:
        held.declared.append(effect_line(effect))
    elif effect.state in states.DOUBT and not live:
        held.unresolved.append(effect_line(effect))
    elif effect.state in (states.LANDED, states.DUPLICATED):
        held.landed.append(effect_line(effect))
