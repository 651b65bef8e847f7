"""The calls a worker makes for its runs. Each parses, calls one domain function and renders; none knows a rule."""

from __future__ import annotations

import uuid
from dataclasses import dataclass, field
from typing import Any

from runs import actors, leases, lifecycle, schema, shapes, states, steps, waiting
from runs.actors import Actor
from runs.calls import Answer, call, run_id
from runs.errors import Invalid
from runs.ids import parse_ref, parse_uuid
from runs.lifecycle import NewRun
from runs.models import Run
from runs.parsing import Given

ACTS = ("cancelled", "lease_lost")
RESERVED = "key:"
IDEMPOTENCY_KEY_MAX = 100


@call(
    takes=schema.NewRunBody,
    answers={201: schema.RunCreated, 200: schema.RunDetail},
    refuses=("client_key_reused", *ACTS),
    headers=("idempotency_key",),
    tag="worker",
    example={
        "agent": "purchase-order",
        "title": "Order 12 pumps",
        "business_ref": "PO-1042",
        "client_key": "import-7/PO-1042",
        "input": {"lines": [{"sku": "PUMP-3", "quantity": 12}]},
        "plan": ["validate", "order", "notify"],
        "claim": {"holder": "host-1:4711:9f3b2c", "ttl_s": 30},
    },
)
def create_run(actor: Actor, given: Given, idempotency_key: str | None = None) -> Answer:
    """Create a run, once for each client_key of its agent.

    With `claim` the answer is `{"run", "lease", "steps", "effects"}`, as of a claim. A repetition is answered 200 with the run and never
    carries a lease. Without a `client_key`, an `Idempotency-Key` header does the same for the credential that sent it.
    """
    parent, claim = given.get("parent") or {}, given.get("claim") or {}
    made = lifecycle.create(
        actor,
        _new_run(actor, given, idempotency_key),
        holder=claim.get("holder", ""),
        ttl_s=claim.get("ttl_s", 30.0),
        parent_id=run_id(parent["run"]) if parent else None,
        parent_lease=parent.get("lease", ""),
    )
    if made.grant is not None:
        return Answer(201, shapes.takeover_shape(made.run, made.grant))
    return Answer(201 if made.created else 200, shapes.run_shape(Run.objects.get(pk=made.run.pk)))


def _new_run(actor: Actor, given: Given, idempotency_key: str | None) -> NewRun:
    return NewRun(
        agent=given["agent"],
        title=given["title"],
        input={} if given.get("input") is None else given["input"],
        business_ref=given.get("business_ref") or "",
        client_key=_client_key(actor, given.get("client_key"), idempotency_key),
        labels=given.get("labels"),
        plan=given.get("plan"),
        deadline_at=given.get("deadline_at"),
        runtime=given.get("runtime") or "",
        runtime_ref=given.get("runtime_ref") or "",
    )


def _client_key(actor: Actor, own: str | None, idempotency_key: str | None) -> str:
    """The caller's own key or, without one, a reserved key made of its credential and its Idempotency-Key."""
    if own:
        if own.startswith(RESERVED):
            raise Invalid(f"client_key: keys that begin with {RESERVED!r} are reserved. Use another one.", field="client_key")
        return own
    if not idempotency_key:
        return ""
    if len(idempotency_key) > IDEMPOTENCY_KEY_MAX or not idempotency_key.isascii() or not idempotency_key.isprintable():
        raise Invalid(f"Idempotency-Key: at most {IDEMPOTENCY_KEY_MAX} printable ASCII characters.", field="Idempotency-Key")
    return f"{RESERVED}{actor.id}:{idempotency_key}"


@call(
    takes=schema.HeartbeatBody,
    answers={200: schema.Directive},
    refuses=("lease_lost",),
    tag="worker",
    example={"lease": "5f1c…", "steps": [{"key": "order", "progress": 0.4, "message": "40 of 100"}]},
)
def heartbeat(actor: Actor, run: str, given: Given) -> Answer:
    """Renew the lease, tell progress, hear the directive.

    `cancel` means: finish what is in flight, report it, start nothing new, then say `stopped`.
    """
    pk = run_id(run)
    answer = leases.heartbeat(actor, pk, given["lease"])
    if given.get("steps"):
        steps.progress(pk, given["lease"], given["steps"])
    cancel = {} if answer["directive"] == "continue" else {"cancel": cancel_of(pk)}
    return Answer(200, {**answer, "lease_expires_at": shapes.iso(answer["lease_expires_at"]), **cancel})


def cancel_of(pk: uuid.UUID) -> dict[str, Any] | None:
    """Who cancelled the run, when and why; None when nobody did."""
    run = Run.objects.get(pk=pk)
    return shapes.cancel_shape(run, shapes.first_cancels([pk]).get(pk))


@call(takes=schema.LeaseBody, answers={200: schema.RunState}, refuses=("lease_lost",), tag="worker")
def heard(actor: Actor, run: str, given: Given) -> Answer:
    """Acknowledge a cancel: a fact, accepted under any lease that the run ever gave."""
    from runs import cancellation

    return _state(cancellation.heard(actor, run_id(run), given["lease"]))


def _state(run: Run) -> Answer:
    fresh = Run.objects.get(pk=run.pk)
    return Answer(200, {"run": fresh.ref, "state": fresh.state, "status": fresh.status, "waits_for": fresh.waits_for})


@call(
    takes=schema.StepBody,
    answers={201: schema.StepLine, 200: schema.StepLine},
    refuses=(*ACTS, "digest_changed"),
    tag="worker",
    example={"lease": "5f1c…", "key": "order", "kind": "tool", "title": "Order at the supplier", "hears_cancel_every_s": 5},
)
def start_step(actor: Actor, run: str, given: Given) -> Answer:
    """Start a step. 200: it had finished already, and this is how."""
    new = steps.NewStep(
        key=given["key"],
        kind=given["kind"],
        title=given.get("title") or "",
        hears_cancel_every_s=given.get("hears_cancel_every_s"),
        deadline_s=given.get("deadline_s"),
        input_digest=given.get("input_digest") or "",
    )
    step, started = steps.start(actor, run_id(run), given["lease"], new)
    return Answer(201 if started else 200, shapes.step_shape(step))


@call(
    takes=schema.StepFinishBody,
    answers={200: schema.StepRecorded},
    refuses=("effects_in_flight", "lease_lost"),
    tag="worker",
    example={"lease": "5f1c…", "outcome": "done", "result": {"order": "S-10933"}},
)
def finish_step(actor: Actor, run: str, key: str, given: Given) -> Answer:
    """Say what came of a step: a fact, always kept.

    `recorded` says how: `done` or `failed`; `late` (kept as evidence, not used); `discarded` (a model's answer after the cancel).
    """
    pk = run_id(run)
    _, recorded = steps.finish(
        actor,
        pk,
        given["lease"],
        key,
        given["outcome"],
        result=given.get("result"),
        error=given.get("error") or "",
        cost=given.get("cost"),
    )
    state, token = Run.objects.values_list("state", "lease_token").get(pk=pk)
    if state == states.RUNNING:
        return Answer(200, {"recorded": recorded, "directive": "continue" if token == given["lease"] else "stop"})
    cancel = cancel_of(pk)
    return Answer(
        200, {"recorded": recorded, "directive": "cancel", "cancel": cancel} if cancel else {"recorded": recorded, "directive": "stop"}
    )


@call(
    takes=schema.SuspendBody,
    answers={200: schema.RunState},
    refuses=(*ACTS, "effects_in_flight"),
    tag="worker",
    example={"lease": "5f1c…", "until": "evidence"},
)
def suspend(actor: Actor, run: str, given: Given) -> Answer:
    """Give the lease back until a condition holds. When it holds already, the run is scheduled at once."""
    made = waiting.suspend(
        actor,
        run_id(run),
        given["lease"],
        given["until"],
        operation_id=given.get("operation_id"),
        child=run_id(given["child"]) if given.get("child") else None,
        wake_at=given.get("wake_at"),
    )
    return _state(made)


@call(takes=schema.LeaseBody, answers={200: schema.RunState}, refuses=("lease_lost",), tag="worker")
def stopped(actor: Actor, run: str, given: Given) -> Answer:
    """Say that this worker has stopped acting for the run: a fact, accepted under any lease that the run ever gave."""
    return _state(leases.stopped(actor, run_id(run), given["lease"]))


@call(takes=schema.LeaseBody, answers={200: schema.RunState}, refuses=("lease_lost", "cancelled", "effects_in_flight"), tag="worker")
def release(actor: Actor, run: str, given: Given) -> Answer:
    """Give the lease back, with nothing in flight."""
    return _state(leases.release(actor, run_id(run), given["lease"]))


@call(takes=schema.GoneBody, answers={200: schema.Gone}, tag="worker", example={"how": "killed by SIGKILL"})
def gone(actor: Actor, holder: str, given: Given) -> Answer:
    """A supervisor has reaped the process `holder`: a fact about every lease it held.

    It counts only from the credential that claimed; for any other, and for a holder that held nothing, the list is empty.
    """
    actor.require(actors.RUN_WORK, None, "report that a worker is gone")
    return Answer(200, {"runs": leases.gone(actor, holder, given["how"])})


@call(
    takes=schema.FinishBody,
    answers={200: schema.RunState},
    refuses=(*ACTS, "effects_in_flight"),
    tag="worker",
    example={"lease": "5f1c…", "outcome": "completed", "result": {"order": "S-10933"}},
)
def finish_run(actor: Actor, run: str, given: Given) -> Answer:
    """End the run: completed or failed. Refused as `cancelled` when a cancel came first."""
    ended = lifecycle.finish(
        actor, run_id(run), given["lease"], given["outcome"], result=given.get("result"), error=given.get("error") or ""
    )
    return _state(ended)


# The two that wait. Here is what they do in one look; who waits between looks is the door.

CLAIMABLE = frozenset({"run.created", "run.woke", "run.suspended", "lease.released", "lease.stopped", "lease.reaped", "lease.expired"})
TELLING = frozenset({"cancel", "terminate", "run", "lease"})


@call(
    takes=schema.ClaimBody,
    answers={200: schema.Takeover, 204: None},
    tag="worker",
    example={"holder": "host-1:4711:9f3b2c", "agents": ["purchase-order"], "wait_s": 20},
)
def claim(actor: Actor, given: Given) -> Answer:
    """Take the oldest run that waits for a worker of these agents, or wait up to `wait_s` seconds for one (204: none came).

    An `Idempotency-Key` is not honoured here: a stored answer handed to a second process would be a second permission to act.
    """
    taken = leases.claim(actor, given["holder"], given["agents"], given["ttl_s"], given.get("runtime") or "")
    return Answer(204) if taken is None else Answer(200, shapes.takeover_shape(*taken))


@dataclass
class Named:
    """The runs that a question for directives names, with the epochs under which the asker holds them."""

    epochs: dict[uuid.UUID, int] = field(default_factory=dict)
    unknown: dict[str, int] = field(default_factory=dict)
    heard: set[uuid.UUID] = field(default_factory=set)


@call(takes=schema.DirectivesQuery, answers={200: schema.Directives}, tag="worker")
def directives(actor: Actor, given: Given) -> Answer:
    """Ask which of the named runs are no longer running under the named epoch, or wait up to `wait_s` seconds until one is not.

    Each line says why. Runs in `heard` are left out once they are cancelled.
    """
    return Answer(200, {"directives": look(named(actor, given))})


def named(actor: Actor, given: Given) -> Named:
    """Read `runs` and `heard`. A run that the actor does not work for is as unknown as one that does not exist."""
    actor.require(actors.RUN_WORK, None, "ask for directives")
    pairs = [part.rpartition(":") for part in given["runs"].split(",") if part]
    if (
        not pairs
        or len(pairs) > schema.PAIRS_MAX
        or any(not epoch.isascii() or not epoch.isdigit() or len(epoch) > 9 for _, _, epoch in pairs)
    ):
        raise Invalid(f"runs: send run:epoch,… for 1 to {schema.PAIRS_MAX} runs.", field="runs")
    heard = [part for part in given.get("heard", "").split(",") if part]
    known = _known(actor, [text for text, _, _ in pairs] + heard)
    asked = Named(heard={known[text] for text in heard if text in known})
    for text, _, epoch in pairs:
        if text in known:
            asked.epochs[known[text]] = int(epoch)
        else:
            asked.unknown[text[:60]] = int(epoch)
    return asked


def _known(actor: Actor, texts: list[str]) -> dict[str, uuid.UUID]:
    """The runs behind ids and references, as far as they exist and are the actor's."""
    ids = {text: parse_uuid(text) for text in texts}
    refs = {text: parse_ref(text, "R") for text in texts if ids[text] is None}
    found = Run.objects.filter(pk__in={pk for pk in ids.values() if pk}) | Run.objects.filter(ref__in={ref for ref in refs.values() if ref})
    mine = [(pk, ref) for pk, ref, agent in found.values_list("pk", "ref", "agent") if actor.may(actors.RUN_WORK, agent)]
    by_name: dict[Any, uuid.UUID] = {pk: pk for pk, _ in mine} | {ref: pk for pk, ref in mine}
    return {text: pk for text in texts if (pk := by_name.get(ids[text] or refs.get(text)))}


def look(asked: Named) -> list[dict[str, Any]]:
    """The directives that there are now."""
    lines = [line for line in leases.where(list(asked.epochs.items())) if not _is_heard(asked, line)]
    stopping = [uuid.UUID(line["run"]) for line in lines if line["why"] == "cancelled"]
    cancels = shapes.first_cancels(stopping)
    runs = Run.objects.in_bulk(stopping) if stopping else {}
    for line in lines:
        pk = uuid.UUID(line["run"])
        line["epoch"] = asked.epochs[pk]
        if pk in cancels:
            line["cancel"] = shapes.cancel_shape(runs[pk], cancels[pk])
    unknown = [{"run": text, "epoch": epoch, "directive": "stop", "why": "not_found"} for text, epoch in asked.unknown.items()]
    return lines + unknown


def _is_heard(asked: Named, line: dict[str, Any]) -> bool:
    return line["why"] == "cancelled" and uuid.UUID(line["run"]) in asked.heard
