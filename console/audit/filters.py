"""What an auditor asks for, read from the address, and the form in which it is asked. It reads no history."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.http import QueryDict
from django.utils.timezone import now

from ledger import states as effect_states
from ledger.providers.money import BadAmount, minor_units
from ledger.vocabulary import EFFECT_CHIPS
from runs import local_times, states
from runs.errors import Invalid
from runs.ids import parse_ref
from runs.parsing import check_text
from runs.vocabulary import RUN_CHIPS

FIELDS = (
    "since",
    "until",
    "actor",
    "people",
    "kind",
    "run",
    "effect",
    "state",
    "provider",
    "amount_from",
    "amount_to",
    "currency",
    "quiet_over",
)
KEPT = (*FIELDS, local_times.ZONE)
"""What an address must carry so that it means the same."""
GROUPS = {
    "cancel": "Cancels", "terminate": "Terminations", "approval": "Approvals", "compensation": "Undoing", "case": "Cases",
    "effect": "Actions outside", "run": "Life of a run", "step": "Steps", "lease": "Leases", "cleanup": "Clean-up",
    "people": "People and sign-ins", "credential": "Machine credentials", "policy": "Policies", "rule": "Rules",
    "audit": "Exports", "integrity": "Records that disagree",
}  # fmt: skip


@dataclass(frozen=True)
class Wanted:
    """What the address asks for; None and '' mean any. Amounts are minor units of `currency`; `quiet_over` is seconds."""

    since: datetime | None = None
    until: datetime | None = None
    actor: str = ""
    people: bool = False
    kind: str = ""
    run: str = ""
    effect: str = ""
    state: str = ""
    provider: str = ""
    amount_from: int | None = None
    amount_to: int | None = None
    currency: str = ""
    quiet_over: float | None = None

    @property
    def narrows(self) -> bool:
        return self != Wanted()


def read(params: QueryDict) -> Wanted:
    """What a query string asks for; unknown parameters are left alone. Raises `Invalid`, naming the field."""
    check_text({name: values for name, values in params.lists()})
    given = {name: params.get(name, "").strip()[:200] for name in KEPT}
    currency = given["currency"].upper()
    if (given["amount_from"] or given["amount_to"]) and not currency:
        raise Invalid("currency: an amount needs its currency, such as EUR.", field="currency")
    if given["state"] and given["state"] not in STATES:
        raise Invalid(f"state: {given['state']!r} is no state that is recorded.", field="state")
    return Wanted(
        since=local_times.read(given, "since"),
        until=local_times.read(given, "until", latest=True),
        actor=given["actor"],
        people=given["people"] == "1",
        kind=given["kind"],
        run=_ref(given, "run", "R"),
        effect=_ref(given, "effect", "E"),
        state=given["state"],
        provider=given["provider"],
        amount_from=_amount(given, "amount_from", currency),
        amount_to=_amount(given, "amount_to", currency),
        currency=currency,
        quiet_over=_seconds(given["quiet_over"]),
    )


def _ref(given: dict[str, str], name: str, prefix: str) -> str:
    found = parse_ref(given[name], prefix)
    if given[name] and found is None:
        raise Invalid(f"{name}: use a reference such as {prefix}-7K2M9Q4TXA.", field=name)
    return found or ""


def _amount(given: dict[str, str], name: str, currency: str) -> int | None:
    if not given[name]:
        return None
    try:
        return minor_units(given[name].replace(",", ""), currency)
    except BadAmount as wrong:
        raise Invalid(f"{name}: {wrong}: write it like 125.00, in {currency[:10]}.", field=name) from None


def _seconds(text: str) -> float | None:
    if not text:
        return None
    try:
        seconds = float(text)
        if not 0 <= seconds <= 10**9:
            raise ValueError
        return seconds
    except ValueError:
        raise Invalid("quiet_over: use a number of seconds, such as 60.", field="quiet_over") from None


def _states() -> dict[str, str]:
    """Every state that an event records, as its kind, with its words."""
    of_runs = {f"run.{state}": f"Run: {RUN_CHIPS[state].text}" for state in states.STATES if state in states.CLOSED}
    of_effects = {f"effect.{state}": f"Action: {_words(state)}" for state in effect_states.STATES}
    return of_runs | {"run.failing": "Run: Failing", "cancel.accepted": "Run: Cancelling", "run.quiet": "Run: Quiet"} | of_effects


def _words(state: str) -> str:
    return EFFECT_CHIPS[state].text.replace("{provider}", "the provider") if state in EFFECT_CHIPS else state


STATES = _states()


# The form


def form(params: QueryDict, wanted: Wanted, zone: str, recorded: list[str]) -> dict[str, Any]:
    """The context of the filter form; its times are those of the reader's zone, `recorded` are the kinds of events that there are."""
    since, until, zone = local_times.fields(wanted.since, wanted.until, zone)
    groups = {kind.partition(".")[0] for kind in recorded}
    return {
        **{name: params.get(name, "") for name in FIELDS},
        "since": since,
        "until": until,
        "zone": zone,
        "people": wanted.people,
        "groups": [{"value": key, "label": label, "on": key == wanted.kind} for key, label in GROUPS.items() if key in groups],
        "kinds": [{"value": kind, "label": kind, "on": kind == wanted.kind} for kind in recorded],
        "states": [{"value": kind, "label": label, "on": kind == wanted.state} for kind, label in STATES.items()],
        "now": now(),
    }


_LABELS = {
    "since": "from {}", "until": "until {}", "actor": "by {}", "people": "people only", "kind": "{}", "run": "{}",
    "effect": "{}", "state": "{}", "provider": "at {}", "amount_from": "from {}", "amount_to": "up to {}", "currency": "in {}",
    "quiet_over": "quiet after more than {} s",
}  # fmt: skip


def applied(params: QueryDict, wanted: Wanted, path: str, zone: str) -> list[dict[str, str]]:
    """Each filter that is on, in words (times in the reader's zone), with the address without it."""
    shown = []
    times = {name: local_times.words(at, zone) for name, at in (("since", wanted.since), ("until", wanted.until)) if at}
    for name in FIELDS:
        value = params.get(name, "").strip()
        if value:
            left = params.copy()
            for gone in (name, "place"):
                left.pop(gone, None)
            word = GROUPS.get(value, value) if name == "kind" else STATES.get(value, value) if name == "state" else times.get(name, value)
            shown.append({"name": name, "label": _LABELS[name].format(word), "url": f"{path}?{left.urlencode()}"})
    return shown
