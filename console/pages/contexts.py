"""The run's page, composed of what each app shows of its part of it. It adds nothing of its own."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ledger import pages as effect_pages
from ledger import picture as effect_lanes
from reconciliation import queue as case_pages
from reconciliation import states as case_states
from runs import asking, doing, family, pages, states
from runs import picture as pictures
from runs.actors import Actor
from runs.family import Family
from runs.models import Run
from runs.picture import Picture
from runs.wording import Ref, say

Context = dict[str, Any]


def head(run: Run, actor: Actor | None = None) -> Context:
    """The context of `runs/detail.html#head`: with a note for each open case that is about the run itself."""
    context = pages.head(run, effect_pages.standing(run), actor)
    about_run = [case for case in case_pages.of_run(run) if case.effect_id is None] if run.needs_person else []
    context["cases"] = [{"ref": case.ref, "url": f"/cases/{case.ref}/", "says": say("Needs a person: ", case.why)} for case in about_run]
    if run.state == states.AWAITING_APPROVAL:
        asked = [one for one in asking.of_run(run) if one.state == "requested"]
        context["cases"] += [{"ref": "Approvals", "url": "/approvals/", "says": say("It asks: ", one.question)} for one in asked]
    if any(case.kind == case_states.DOES_NOT_STOP for case in about_run):
        context["notes"] = [*context["notes"], say("Terminating is possible: see ", Ref(about_run[0].ref), ".")]
    return context


def effects(run: Run, actor: Actor | None = None) -> list[Context]:
    """The context of `runs/detail.html#effects`; a push has no actor, and so no buttons."""
    found = effect_pages.effects(run, actor)
    if run.needs_person:
        links = case_pages.links(item["effect"]["id"] for item in found)
        for item in found:
            if link := links.get(item["effect"]["id"]):
                item["effect"] |= {"case_url": link["url"], "case_ref": link["ref"]}
    return found


def account(run: Run) -> Context | None:
    """The context of `runs/detail.html#account`."""
    return effect_pages.account(run, effects(run)) if run.is_closed or run.cancel_position is not None else effect_pages.account(run)


def picture(run: Run, shown: list[Context], below: Family) -> Picture | None:
    """The context of `runs/detail.html#picture`, from what the page shows of its effects and children anyway."""
    total, picked = effect_pages.total(run, shown), effect_lanes.pick(shown)
    lanes, of_steps = effect_lanes.lanes(picked, total), {effect["step_key"] for effect in picked}
    return pictures.of_run(run, lanes, of_steps, below, effect_lanes.says(shown, total))


def receipt(run: Run) -> Context | None:
    """What the cancel that counts met, with its children's, as it was written then."""
    body = pages.receipt_of(run)
    if body is None:
        return None
    parts = list(pages.tree(body))
    line = effect_pages.line
    return {
        "at": datetime.fromisoformat(body["asked_at"]) if body.get("asked_at") else None,
        "mode": body["mode"],
        "in_flight": [line(one) for part in parts for one in part["in_flight"]],
        "unresolved": [line(one) for part in parts for one in part["unresolved"]],
        "withheld": [line(one) for part in parts for one in part["withheld"]],
        "landed": [line(one) for part in parts for one in part["landed"]],
        "not_started": [one["step"] for part in parts for one in part["not_started"]],
        "running": [one["title"] or one["step"] for part in parts for one in part["running"]],
        "cleanups": [one["key"] for part in parts for one in part["cleanups"] if one.get("will_run")],
        "skipped": [one["key"] for part in parts for one in part["cleanups"] if not one.get("will_run")],
        "children": [part["run"] for part in parts[1:]],
        "changed": while_reading(body),
    }


def while_reading(body: Context) -> tuple[str, ...]:
    """What was sent between the preview that a person saw and their cancel, one line each."""
    refs = [one["subject"] for one in body.get("changed_since_seen", []) if one["kind"] == "effect.sending"]
    names = effect_pages.names(refs)
    return tuple(f"{names.get(ref, 'an action')} ({ref})" for ref in refs)


def run_page(run: Run, actor: Actor, before: int | None = None) -> Context:
    """The context of the whole page."""
    shown = effects(run, actor)
    below = family.below(run)
    timeline, earlier = pages.timeline(run, effect_pages.names_of(shown) | effect_pages.undo_names(run), before=before)
    return head(run, actor) | {
        "account": effect_pages.account(run, shown),
        "effects": shown,
        "effects_count": effect_pages.counted(run, shown),
        "receipt": receipt(run),
        "family": below,
        "picture": picture(run, shown, below),
        "doing": doing.now(run),
        "timeline": timeline,
        "earlier_url": f"/runs/{run.ref}/?before={earlier}#run-timeline" if earlier else "",
        "older": before is not None,
        "json_url": f"/api/v1/runs/{run.ref}",
    }
