"""The finder's form: the verdicts of a kind of case, the fields that those need, and what saving each would do."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.template.defaultfilters import filesizeformat

from ledger import catalogue
from ledger.models import Effect
from ledger.providers.money import decimal_text
from reconciliation import files, second, states
from reconciliation.evidence import Finding
from reconciliation.history import VERDICT_WORDS
from reconciliation.models import Case
from runs.errors import ProviderUnknown
from runs.models import Run

Context = dict[str, Any]

_HELP = {
    states.HAPPENED: "You found it at the provider. Its reference there is needed.",
    states.HAPPENED_DIFFERENTLY: "You found it, for another amount. Reference and amount are needed.",
    states.DID_NOT_HAPPEN: "You looked where it would be, and it is not there.",
    states.CANNOT_BE_KNOWN: "Nobody can find out. A second person must confirm; it stays unknown in the account.",
    states.SURPLUS_NAMED: "Tick the ones that are too many.",
    states.SEND_AGAIN: "It is proved that it did not happen. The run may send it once more.",
    states.LEAVE: "It is not sent.",
    states.BELONGS_TO: "Name the action (E-…) that it belongs to.",
    states.NOT_OURS: "Somebody else's.",
    states.DONE_BY_HAND: "You or somebody else tidied it up.",
    states.NOT_NEEDED: "There is nothing to tidy up.",
    "pass_on": "The case goes back to the queue with your notes.",
}
PLACES = {
    "provider_dashboard": "Provider's dashboard",
    "statement": "Statement",
    "provider_support": "Provider's support",
    "customer": "Customer",
    "other": "Somewhere else",
}
_WITH_EVIDENCE = {states.HAPPENED, states.HAPPENED_DIFFERENTLY, states.DID_NOT_HAPPEN}


def form(case: Case, given: Context | None = None, errors: dict[str, str] | None = None) -> Context:
    """The finder's form: the verdicts of this kind of case and the fields that those need."""
    offered = states.VERDICTS[case.kind]
    verdicts = [{"value": word, "label": VERDICT_WORDS[word], "help": _HELP[word], "preview": preview(case, word)} for word in offered]
    if offered:
        verdicts.append({"value": "pass_on", "label": "I can't tell — pass it on", "help": _HELP["pass_on"], "preview": ""})
    return {
        "verdicts": verdicts,
        "places": [{"value": value, "label": label} for value, label in PLACES.items()],
        "asks_evidence": bool(_WITH_EVIDENCE & set(offered)),
        "asks_effect": states.BELONGS_TO in offered,
        "asks_amount": states.HAPPENED_DIFFERENTLY in offered and case.amount is not None,
        "surplus": [str(one) for one in case.facts.get("external_ids", [])] if states.SURPLUS_NAMED in offered else [],
        "expected": decimal_text(case.amount, case.currency) if case.amount is not None and case.currency else "",
        "file_types": ", ".join(f".{one}" for one in files.TYPES if one in settings.EVIDENCE_TYPES),
        "file_max": filesizeformat(settings.EVIDENCE_BYTES_MAX),
        "form": given or {},
        "errors": errors or {},
    }


def preview(case: Case, verdict: str) -> str:
    """What saving this verdict would do, as things stand now: the effect's next chip, what that allows, and the run's account."""
    effect = case.effect
    becomes = _becomes(effect, verdict) if effect is not None else ""
    if not becomes or effect is None:
        return ""
    over = second.why_needed(effect, Finding(verdict))
    first = f"A second person confirms first. Then {becomes}" if over else becomes[0].upper() + becomes[1:]
    return f"{first} {_account(effect.run, verdict)}".strip()


def _becomes(effect: Effect, verdict: str) -> str:
    after = effect.run.cancel_position is not None
    landed = "“Landed — confirmed after the cancel”" if after else "“Landed”"
    undo = " An undo can be asked for." if effect.action in _compensable(effect) else ""
    match verdict:
        case states.HAPPENED:
            return f"the action becomes {landed}.{undo}"
        case states.HAPPENED_DIFFERENTLY:
            return f"the action becomes {landed}, for that amount.{undo}"
        case states.DID_NOT_HAPPEN:
            return "the action becomes “Did not happen”."
        case states.CANNOT_BE_KNOWN:
            return "it stays unknown in the account, its reference stays taken, and it leaves this queue."
        case states.SURPLUS_NAMED:
            return f"it stays “Happened more than once”.{' An undo can be asked for each that is too many.' if undo else ''}"
        case states.SEND_AGAIN:
            return "the run may send it once more, under the same operation id."
        case states.LEAVE:
            return "no run sends it any more, unless a person opens another occurrence."
    return ""


def _compensable(effect: Effect) -> Mapping[str, str]:
    try:
        return catalogue.capability(effect.provider).compensable
    except ProviderUnknown:
        return {}


def _account(run: Run, verdict: str) -> str:
    """What it means for the run: whether this was the last thing that stood open."""
    others = run.in_flight + run.in_doubt + run.needs_person + run.unknowable + run.children_unsettled - 1
    own_doubt = verdict in (states.HAPPENED, states.HAPPENED_DIFFERENTLY, states.DID_NOT_HAPPEN)
    if own_doubt and others - 1 <= 0:
        return f"The account of {run.ref} is settled." if run.is_closed else f"Nothing of {run.ref} is in doubt any more."
    return f"{run.ref} keeps other open questions." if own_doubt else ""
