"""Effects of a plan: each lives in a step, which is finished only when the effect is known."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote

from countermand import steps
from countermand.clock import now_s
from countermand.errors import EffectDidNotHappen, EffectRefused, EffectUnknowable, Json
from countermand.sending import Doubt, Send, carry_out
from countermand.suspending import suspend

if TYPE_CHECKING:
    from countermand.run import Run

_AGAIN_AFTER_S = 1.0


class Sent(dict[str, Any]):
    """A landed effect: a dict (so that it can be stored), with its facts as attributes."""

    @property
    def operation_id(self) -> str:
        """Our stable id of the effect."""
        return str(self["operation_id"])

    @property
    def external_id(self) -> str | None:
        """The provider's id, when it gave one."""
        return self.get("external_id")

    @property
    def amount(self) -> int | None:
        """What landed, in minor units of `currency`."""
        return self.get("amount")

    @property
    def currency(self) -> str | None:
        """ISO 4217 code."""
        return self.get("currency")

    @property
    def response(self) -> Any:
        """The provider's response as it was kept."""
        return self.get("response")


def effect(run: Run, body: Json, send: Send, *, key: str | None, ordinal: int | None, declare_first: bool) -> Sent:
    """An effect inside the current step, or in a step of its own."""
    inside = steps.current()
    if inside is not None and inside.run == run.id and key is None:
        inside.ordinals += 1
        body = {**body, "lease": run.lease.token, "step": inside.key, "ordinal": ordinal or inside.ordinals}
        return _known(run, body, send, declare_first)
    key = key or own_key(body)
    body = {**body, "lease": run.lease.token, "step": key, "ordinal": ordinal or 1}
    start = steps.opening("tool", title=f"Send {body['business_ref']} to {body['provider']}")
    return Sent(steps.run_step(run, key, lambda: _known(run, body, send, declare_first), start))


def own_key(body: Json) -> str:
    """The default step key of an effect: the same on every replay, never from time or attempt."""
    occurrence = f"#{body['occurrence']}" if body.get("occurrence", 1) != 1 else ""
    return f"{body['provider']}.{body['action']}:{quote(body['business_ref'], safe=' ')}{occurrence}"


def _known(run: Run, body: Json, send: Send, declare_first: bool) -> Sent:
    until_s = now_s() + (run.block_s or 0)
    while True:
        try:
            found = carry_out(run.authority, body, send, declare_first=declare_first)
            return interpret(found, body)
        except Doubt as doubt:
            if doubt.effect.get("unknowable"):
                raise EffectUnknowable(_sentence(doubt.effect, "nobody can find out whether this happened"), doubt.effect) from None
            _wait(run, doubt, body, until_s)
        except EffectDidNotHappen as error:
            step = steps.current()
            if error.facts.get("state") == "declared" and step:
                step.keep_open = True  # not a final fact: the same call may be made again, here or on another worker
            raise


def _wait(run: Run, doubt: Doubt, body: Json, until_s: float) -> None:
    run.authority.check()
    if run.block_s is not None and now_s() < until_s:
        time.sleep(min(_AGAIN_AFTER_S, max(0.05, until_s - now_s())))
        run.authority.check()
        return
    theirs = doubt.run is not None and doubt.run not in (run.id, run.ref) and doubt.operation_id
    if theirs:
        suspend(run, "operation", f"{body['business_ref']} is in doubt in run {doubt.run}", operation_id=doubt.operation_id)
    suspend(run, "evidence", f"it is not known whether {body['action']} {body['business_ref']} happened")


def interpret(found: Json, body: Json) -> Sent:
    """An effect's facts as the plan gets them: Sent, or the error that tells what else it is. Raises Doubt when not
    known.
    """
    state = found.get("state")
    if state in ("landed", "duplicated"):
        amount = found.get("landed_amount")
        amount = amount if amount is not None else found.get("amount", body.get("amount"))
        return Sent(
            operation_id=found.get("operation_id"), external_id=found.get("external_id"), state=state,
            amount=amount, currency=found.get("currency", body.get("currency")), response=found.get("response"),
        )  # fmt: skip
    facts = {name: value for name, value in found.items() if name not in ("evidence", "response")}
    if state in ("refused", "absent", "withheld", "declared", "reversed"):
        _did_not(state, facts, found, body)
    if found.get("unknowable"):
        raise EffectUnknowable(_sentence(found, "nobody can find out whether this happened"), facts)
    raise Doubt(found.get("operation_id"), found.get("run"), found)


def _did_not(state: str, facts: Json, found: Json, body: Json) -> NoReturn:
    what = f"{body['action']} {body['business_ref']}"
    if state == "refused":
        raise EffectRefused(_sentence(found, f"{body['provider']} refused {what}"), {**facts, "response": found.get("response")})
    sentences = {
        "absent": f"it is proved that {what} did not happen",
        "withheld": f"{what} was withheld: the run was stopped before it was sent",
        "declared": f"{what} was not sent: no byte left this process; the same call may be made again",
        "reversed": f"{what} happened and was undone by {body['provider']}",
    }
    raise EffectDidNotHappen(_sentence(found, sentences[state]), facts)


def _sentence(found: Json, default: str) -> str:
    return str(found.get("sentence") or default)


__all__ = ["Sent", "effect", "interpret", "own_key"]
