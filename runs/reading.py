"""The calls that read runs, and the ones that stop them. Each parses, calls one domain function and renders; none knows a rule."""

from __future__ import annotations

from typing import Any

from runs import actors, cancellation, preview, queries, schema, shapes
from runs.actors import Actor
from runs.book import book
from runs.calls import Answer, call, run_id
from runs.errors import AlreadyClosed, NotAllowed
from runs.models import ClientKey, Run
from runs.parsing import Given
from runs.queries import RunFilter


@call(takes=schema.RunsQuery, answers={200: schema.RunPage})
def list_runs(actor: Actor, given: Given) -> Answer:
    """List runs, newest first."""
    wanted = RunFilter(
        status=given.get("status", ()),
        agent=given.get("agent", ()),
        q=given.get("q", ""),
        business_ref=given.get("business_ref", ""),
        started_from=given.get("started_from"),
        started_to=given.get("started_to"),
        cancelled_by=given.get("cancelled_by", ""),
    )
    page = queries.find_runs(actor, wanted, given.get("cursor"), given["limit"])
    return Answer(200, {"results": shapes.run_shapes(page.items), "next": page.next, "previous": page.previous})


@call(answers={200: schema.RunDetail})
def get_run(actor: Actor, run: str, given: Given) -> Answer:
    """Read a run, named by its id or its reference, in any case, with or without dashes."""
    return Answer(200, shapes.run_shape(queries.read_run(actor, run)))


@call(takes=schema.EventsQuery, answers={200: schema.EventPage})
def list_events(actor: Actor, run: str, given: Given) -> Answer:
    """Read the timeline of a run, oldest first."""
    events, after = queries.events_of(queries.read_run(actor, run), given["after"], given["limit"])
    return Answer(200, {"results": [shapes.event_shape(event) for event in events], "next": after})


@call(answers={200: schema.CancelPreview})
def preview_cancellation(actor: Actor, run: str, given: Given) -> Answer:
    """See what a cancel would stop, what it can't stop, what stays, and which clean-up would run. Changes nothing."""
    found = queries.read_run(actor, run)
    if not (actor.may(actors.RUN_READ, found.agent) or actor.may(actors.RUN_CANCEL, found.agent)):
        raise NotAllowed(f"{actor.name} may not preview a cancel: it needs {actors.RUN_CANCEL}.", needs=actors.RUN_CANCEL)
    return Answer(200, preview.preview(found))


@call(
    takes=schema.CancellationBody,
    answers={202: schema.Receipt, 200: schema.Receipt},
    refuses=("already_closed", "plan_changed", "busy", "reauthentication_required"),
    example={"mode": "cancel", "reason": "The customer withdrew the order.", "seen": 12},
)
def request_cancellation(actor: Actor, run: str, given: Given) -> Answer:
    """Cancel or terminate a run and everything below it.

    202: accepted, with the receipt. 200: it had been asked for before, with the first receipt. 409 `already_closed`: it had ended without a
    cancel, with its result. 503 `busy`: nothing was recorded; ask again. Terminating needs a person, a `reason` and the `plan_digest` of
    the preview that the person saw.
    """
    answer = cancellation.request_cancel(
        actor,
        run_id(run),
        mode=given["mode"],
        reason=given.get("reason") or "",
        seen=given.get("seen"),
        plan_digest=given.get("plan_digest"),
    )
    return _cancelled(answer)


def _cancelled(answer: cancellation.Answer) -> Answer:
    if answer.kind == cancellation.ALREADY_CLOSED:
        raise already_closed(answer.run)
    return Answer(202 if answer.kind == cancellation.ACCEPTED else 200, answer.request.receipt)


def already_closed(run: Run) -> AlreadyClosed:
    """The refusal of a cancel that came too late: the final word, the result, what landed, and which children are still open."""
    fresh = Run.objects.get(pk=run.pk)
    children = Run.objects.filter(parent=fresh, closed_at__isnull=True).order_by("id").values_list("ref", flat=True)
    return AlreadyClosed(
        f"{fresh.ref} had already ended as {fresh.state}: nothing was stopped."
        if fresh.is_closed
        else f"{fresh.ref} has already failed and is cleaning up: its end is decided.",
        run=fresh.ref,
        state=fresh.state,
        run_status=fresh.status,
        closed_at=shapes.iso(fresh.closed_at),
        result=fresh.result,
        landed=book().holdings([fresh])[fresh.pk].landed,
        open_children=list(children),
    )


@call(
    takes=schema.CancelByKeyBody,
    answers={202: schema.CancelTaken, 200: schema.Receipt},
    refuses=("already_closed", "busy"),
    example={"agent": "purchase-order", "client_key": "import-7/PO-1042", "reason": "The import was wrong."},
)
def cancel_by_key(actor: Actor, given: Given) -> Answer:
    """Cancel the run of a client_key, even before it exists.

    If it exists, this is an ordinary cancel with its receipt. If not, the cancel is kept for 24 hours and applies before the first step.
    """
    answer = cancellation.cancel_by_key(actor, given["agent"], given["client_key"], given["reason"])
    return _stored(answer) if isinstance(answer, ClientKey) else _cancelled(answer)


def _stored(key: ClientKey) -> Answer:
    body: dict[str, Any] = {
        "stored": True,
        "agent": key.agent,
        "client_key": key.key,
        "asked_at": shapes.iso(key.cancel_asked_at),
        "expires_at": shapes.iso(key.cancel_expires_at),
    }
    return Answer(202, body)
