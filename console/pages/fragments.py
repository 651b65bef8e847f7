"""Parts of pages as HTML: the same partials that the pages themselves include, for a click's reply and for a push.

A fragment without an actor is the same for everyone: no button and no token in it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.http import HttpRequest
from django.template.loader import get_template, render_to_string

from console.pages import contexts
from ledger import pages as effects
from ledger import undo_pages
from ledger.models import Compensation
from reconciliation import pages as cases
from reconciliation import queue
from reconciliation.models import Case
from runs import asking, family, pages
from runs.actors import Actor
from runs.family import Family
from runs.models import Approval, Event, Run

RUN = "runs/detail.html"
INBOX = "runs/approvals/list.html"


def row_html(run: Run, oob: bool = False) -> str:
    """`<tr id="row-…">` of the list of runs."""
    return render_to_string("runs/list.html#row", {"row": pages.row(run), "oob": oob})


def head_html(run: Run, oob: bool = False) -> str:
    """`<header id="run-head">`."""
    return render_to_string(f"{RUN}#head", contexts.head(run) | {"oob": oob})


def receipt_html(run: Run, oob: bool = False) -> str:
    """`<section id="run-receipt">`: what the cancel met."""
    return render_to_string(f"{RUN}#receipt", {"run": run, "receipt": contexts.receipt(run), "oob": oob})


def account_html(run: Run, oob: bool = False) -> str:
    """`<section id="run-account">`, hidden and empty while there is none."""
    return render_to_string(f"{RUN}#account", {"run": run, "account": contexts.account(run), "oob": oob})


def effects_html(run: Run, oob: bool = False) -> str:
    """`<section id="run-effects">`."""
    shown = contexts.effects(run)
    return render_to_string(f"{RUN}#effects", {"run": run, "effects": shown, "effects_count": effects.counted(run, shown), "oob": oob})


def picture_html(run: Run, oob: bool = False) -> str:
    """`<section id="run-picture">`, hidden and empty while there is nothing to draw."""
    drawn = contexts.picture(run, contexts.effects(run), family.below(run))
    return render_to_string(f"{RUN}#picture", {"run": run, "picture": drawn, "oob": oob})


def outside_html(run: Run, below: Family) -> dict[str, str]:
    """Picture, account and effects by their ids, for one reading of the effects."""
    shown = contexts.effects(run)
    return {
        "run-picture": render_to_string(f"{RUN}#picture", {"run": run, "picture": contexts.picture(run, shown, below)}),
        "run-account": render_to_string(f"{RUN}#account", {"run": run, "account": effects.account(run, shown)}),
        "run-effects": render_to_string(f"{RUN}#effects", {"run": run, "effects": shown, "effects_count": effects.counted(run, shown)}),
    }


def children_html(run: Run, below: Family, oob: bool = False) -> str:
    """`<section id="run-children">`, hidden and empty while there are none."""
    return render_to_string(f"{RUN}#children", {"run": run, "family": below, "oob": oob})


def timeline_items_html(run: Run, events: Iterable[Event]) -> list[tuple[int, str]]:
    """(seq, `<li id="tl-…">`) of each of the run's events, in order; one query for the names of their effects."""
    found = list(events)
    names = effects.names({event.subject for event in found if event.kind.startswith(("effect.", "look."))})
    items = (pages.timeline_item(run, event, names) for event in found)
    template = get_template(f"{RUN}#timeline_item")
    return [(item["seq"], template.render({"item": item})) for item in items]


def case_row_html(case: Case, oob: bool = False) -> str:
    """`<tr id="row-…">` of the list of cases."""
    return render_to_string("reconciliation/cases/list.html#row", {"row": queue.row(case), "oob": oob})


def case_head_html(case: Case, oob: bool = False) -> str:
    """`<header id="case-head">`."""
    return render_to_string("reconciliation/cases/detail.html#head", cases.page(case, None) | {"oob": oob})


def case_known_html(case: Case, oob: bool = False) -> str:
    """`<div id="case-known">`: what we know and don't."""
    return render_to_string("reconciliation/cases/detail.html#known", cases.page(case, None) | {"oob": oob})


def approval_card_html(approval: Approval) -> str:
    """`<section id="row-…">` of the inbox: a confirmation that a run waits for."""
    return render_to_string(f"{INBOX}#approval_card", {"approval": asking.shown(approval, effects.action_shown)})


def undo_card_html(undo: Compensation) -> str:
    """`<section id="row-…">` of the inbox: a request to undo."""
    return render_to_string(f"{INBOX}#undo_card", {"undo": undo_pages.shown(undo)})


# Fragments for one person: what they may do. Inner HTML of the elements that carry `data-actions`.


def row_actions_html(request: HttpRequest, run: Run, actor: Actor) -> str:
    return render_to_string("runs/list.html#actions", {"row": pages.row(run, actor)}, request)


def head_actions_html(request: HttpRequest, run: Run, actor: Actor) -> str:
    context: dict[str, Any] = {"run": run, "allowed": pages.allowed_actions(run, actor)}
    return render_to_string(f"{RUN}#actions", context, request)


def case_actions_html(request: HttpRequest, case: Case, actor: Actor) -> str:
    return render_to_string("reconciliation/cases/detail.html#actions", cases.page(case, actor), request)


def effect_actions_html(item: dict[str, Any]) -> str:
    """What this person may ask about one effect."""
    return render_to_string(f"{RUN}#effect_actions", {"item": item})


def approval_actions_html(approval: Approval, actor: Actor) -> str:
    return render_to_string(f"{INBOX}#approval_actions", {"approval": asking.shown(approval, effects.action_shown, actor)})


def undo_actions_html(undo: Compensation, actor: Actor) -> str:
    return render_to_string(f"{INBOX}#undo_actions", {"undo": undo_pages.shown(undo, actor)})
