"""One attempt at an effect: the go-ahead for a nonce of our own, the send window, the send, and the verdict it
proves.

It must never send without a confirmed "sending, mine", never send twice for one go-ahead, and never call an effect a
failure because an exception was raised: what cannot be told apart from success is unknown.
"""

from __future__ import annotations

import datetime
import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import httpx

from countermand import http
from countermand.authority import Authority
from countermand.clock import now_s
from countermand.doors import Answer
from countermand.errors import ActionRefused, Json, NotSent, Pending, Problem, Refused, SpoolFull, Unreachable
from countermand.faultpoints import reached

log = logging.getLogger("countermand")

_ASK_AGAIN_AFTER_S = (0.2, 0.5, 1.0)
_RESPONSE_BYTES_MAX = 64 * 1024


@dataclass(frozen=True, slots=True)
class Op:
    """What a `send` function gets: everything that identifies the effect at the provider.

    `key`: send it as the idempotency key. `reference`: the business reference to give the provider (`PO-1042`, later
    occurrences `PO-1042#2`). `amount`: integer of minor units of `currency`. `attempt`: which attempt this is.
    """

    key: str
    operation_id: str
    attempt: Any
    reference: str
    provider: str
    action: str
    business_ref: str
    occurrence: int
    amount: int | None
    currency: str | None
    request: Json
    answer_within_s: float | None
    open_until_s: float = field(repr=False)

    @property
    def seconds_left(self) -> float:
        """Seconds in which writing may still begin."""
        return self.open_until_s - now_s()

    def writing(self) -> None:
        """Call right before the first byte when your function does slow work first. Raises NotSent when the window
        has passed.
        """
        if self.seconds_left <= 0:
            raise NotSent("the send window has passed")


Send = Callable[[Op], Any]


@dataclass(frozen=True, slots=True)
class Landed:
    """What a `send` function may return to be exact. `amount`: integer of minor units; `response`: JSON-able
    evidence.
    """

    external_id: str | None = None
    amount: int | None = None
    currency: str | None = None
    response: Any = None


@dataclass(frozen=True, slots=True)
class Said:
    """A verdict with its evidence, and the interruption (KeyboardInterrupt, SystemExit) to pass on after it is told."""

    verdict: str
    external_id: str | None = None
    amount: int | None = None
    currency: str | None = None
    response: Any = None
    interrupt: BaseException | None = None


class Doubt(Exception):
    """Internal: the effect is not known. The caller decides whether to suspend or to wait."""

    def __init__(self, operation_id: str | None, run: str | None, effect: Json) -> None:
        super().__init__("the effect is in doubt")
        self.operation_id = operation_id
        self.run = run
        self.effect = effect


def carry_out(authority: Authority, body: Json, send: Send, *, declare_first: bool = False) -> Json:
    """Bring one effect to where it is known, sending at most once. Returns the effect's facts (`state`,
    `external_id`, …).

    Raises Doubt, ActionRefused, RunCancelled, LeaseLost.
    """
    authority.check()
    reached("before_declare", run=authority.lease.run, step=body["step"])
    for _ in range(3):
        with authority.sending():
            permission = _ask(authority, body, declare_first)
            if isinstance(permission, dict):
                return permission
            said = _attempt(permission, send)
            reached("response_returned", operation_id=permission.operation_id, verdict=said.verdict)
            effect = _tell(authority, permission, said)
        reached("recorded", operation_id=permission.operation_id, state=effect.get("state"))
        if said.interrupt is not None:
            raise said.interrupt
        if not (said.verdict == "not_sent" and said.response == _LATE and effect.get("state") == "declared"):
            return effect
        authority.check()  # our own window had passed and `send` was never called: ask for another one
    return effect


_LATE = {"reason": "the send window had passed before writing began"}


def _ask(authority: Authority, body: Json, declare_first: bool) -> Op | Json:
    """Ask for the go-ahead; an Op is the permission to send once, a dict is an outcome that is known already."""
    run = authority.lease.run
    if declare_first:
        declared = _confirmed(authority, lambda: authority.door.begin_effect(run, {**body, "begin": False, "nonce": uuid.uuid4().hex}))
        if declared.body.get("state") != "declared":
            return _effect_in(declared.body)
        reached("declared", run=run, operation_id=declared.body["operation_id"])
        begin = {"lease": body["lease"], "nonce": uuid.uuid4().hex}
        if "approval" in body:
            begin["approval"] = body["approval"]
        asked_s = now_s()
        answer = _confirmed(authority, lambda: authority.door.begin_declared(declared.body["operation_id"], begin))
    else:
        # The nonce lives only in this call: whoever finds the answer elsewhere cannot ask with it.
        mine = {**body, "begin": True, "nonce": uuid.uuid4().hex}
        asked_s = now_s()
        answer = _confirmed(authority, lambda: authority.door.begin_effect(run, mine))
    if answer.status == 201 and answer.body.get("state") == "sending":
        try:
            return _permission(body, answer.body, asked_s)
        except (KeyError, TypeError, ValueError) as error:
            raise authority.lease.lose(f"a go-ahead could not be read, so nothing was sent ({error!r})") from error
    if answer.status == 201:
        raise ActionRefused(f"the control plane gave no go-ahead: the effect is {answer.body.get('state')}", answer.body)
    return _effect_in(answer.body)


def _confirmed(authority: Authority, call: Callable[[], Answer]) -> Answer:
    """The same question with the same nonce, a few times at most. Without a confirmed answer nothing is sent."""
    for pause_s in (*_ASK_AGAIN_AFTER_S, None):
        try:
            return call()
        except Unreachable as error:
            if pause_s is None:
                raise authority.lease.lose(f"a go-ahead could not be confirmed, so nothing was sent ({error})") from error
            time.sleep(pause_s)
        except Problem as problem:
            over = authority.lease.read(problem)
            if over is not None:
                raise over from problem
            raise _not_allowed(authority, problem) from problem
    raise AssertionError("unreachable")


def _not_allowed(authority: Authority, problem: Problem) -> Exception:
    facts = problem.facts
    if problem.code in ("in_doubt", "absent_ask"):
        return Doubt(
            facts.get("operation_id"),
            facts.get("run"),
            effect if isinstance(effect := facts.get("effect"), dict) else facts,
        )
    return ActionRefused(problem.detail, {**facts, "code": problem.code, "status": problem.status})


def _permission(body: Json, answer: Json, asked_s: float) -> Op:
    operation_id = str(answer["operation_id"])
    occurrence = int(answer.get("occurrence") or body.get("occurrence") or 1)
    reference = body["business_ref"] if occurrence == 1 else f"{body['business_ref']}#{occurrence}"
    return Op(
        key=str(answer.get("idempotency_key") or operation_id),
        operation_id=operation_id,
        attempt=answer["attempt"],
        reference=str(answer.get("reference") or reference),
        provider=body["provider"],
        action=body["action"],
        business_ref=body["business_ref"],
        occurrence=occurrence,
        amount=body.get("amount"),
        currency=body.get("currency"),
        request=body["request"],
        answer_within_s=answer.get("answer_within_s"),
        # From the start of the first question: the control plane cannot have begun the window any earlier.
        open_until_s=asked_s + float(answer["send_within_s"]),
    )


def _attempt(op: Op, send: Send) -> Said:
    reached("sending", operation_id=op.operation_id, attempt=op.attempt)
    if op.seconds_left <= 0:
        return Said("not_sent", response=_LATE)
    try:
        return _read_result(send(op))
    except Refused as no:
        return Said("refused", no.external_id, response=no.response or {"message": str(no)})
    except NotSent as unsent:
        return Said("not_sent", unsent.external_id, response=unsent.response or {"message": str(unsent)})
    except Pending as later:
        return Said("pending", later.external_id, response=later.response or {"message": str(later)})
    except BaseException as error:
        interrupt = error if isinstance(error, KeyboardInterrupt | SystemExit) else None
        log.warning("%s %s: the outcome is unknown (%s: %s)", op.provider, op.reference, type(error).__name__, error)
        return Said("unknown", response={"error": f"{type(error).__name__}: {error}"[:2000]}, interrupt=interrupt)


def _read_result(result: Any) -> Said:
    if isinstance(result, httpx.Response):
        result = http.conclude(result)  # a raw 500 that is merely returned must not read as success
    if isinstance(result, Landed):
        return Said("landed", result.external_id, result.amount, result.currency, result.response)
    found = None
    if isinstance(result, dict):
        found = result.get("external_id", result.get("id"))
    return Said("landed", None if found is None else str(found), response=result)


def _tell(authority: Authority, op: Op, said: Said) -> Json:
    """Report the outcome; it is in the spool before we wait for anything. Returns the effect's facts."""
    body: Json = {
        "attempt": op.attempt,
        "verdict": said.verdict,
        "observed_at": datetime.datetime.now(datetime.UTC).isoformat(),
    }
    if said.external_id is not None:
        body["external_id"] = said.external_id
    if said.amount is not None:
        body["amount"] = said.amount
        body["currency"] = said.currency or op.currency
    if said.response is not None:
        body["response"] = storable(said.response)
    fact: Json = {"verb": "outcome", "subject": op.operation_id, "body": body}
    answer = _until_told(authority, fact)
    effect: Json = _effect_in(answer.body) if answer else {"operation_id": op.operation_id, "state": "unknown"}
    if effect.get("response") is None:
        effect["response"] = body.get("response")
    return effect


def _until_told(authority: Authority, fact: Json) -> Answer | None:
    kept = None
    pause_s = 0.2
    while True:
        try:
            answer = authority.facts.send(fact)
        except Problem as problem:
            authority.facts.refused(fact, problem)
            return None
        except Unreachable as error:
            if kept is None:
                try:
                    kept = authority.facts.spool.append(fact)
                except SpoolFull:
                    pause_s = 1.0  # nowhere to put it: stay with it, and try both again
            if kept is not None and authority.lease.out_of_time():
                raise authority.lease.lose("an outcome could not be told while the lease lasted; it is in the spool") from error
            time.sleep(pause_s)
            pause_s = min(2.0, pause_s * 2)
            continue
        if kept is not None:
            kept.unlink(missing_ok=True)
        return answer


def _effect_in(body: Json) -> Json:
    return dict(body.get("effect") or body)


def storable(response: Any) -> Any:
    """The response as JSON, or its text cut to 2,000 characters when it is not JSON or larger than 64 kB."""
    try:
        text = json.dumps(response, allow_nan=False)
    except (TypeError, ValueError):
        return {"text": repr(response)[:2000]}
    if len(text) > _RESPONSE_BYTES_MAX:
        return {"text": text[:2000], "bytes": len(text)}
    return json.loads(text)
