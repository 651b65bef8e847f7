"""What people and sweeps did with a case, in words: every verdict ever recorded stays visible. It changes nothing."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from ledger.pages import amount_text
from reconciliation import states
from reconciliation.models import Case, CaseEvent
from runs.wording import count, moment_text

Context = dict[str, Any]

VERDICT_WORDS = {
    states.HAPPENED: "It happened",
    states.HAPPENED_DIFFERENTLY: "It happened for a different amount",
    states.DID_NOT_HAPPEN: "It did not happen",
    states.CANNOT_BE_KNOWN: "It can't be known",
    states.SURPLUS_NAMED: "These are the surplus",
    states.SEND_AGAIN: "Send it again",
    states.LEAVE: "Leave it unsent",
    states.BELONGS_TO: "It belongs to one of our actions",
    states.NOT_OURS: "It is not ours",
    states.DONE_BY_HAND: "It was done by hand",
    states.NOT_NEEDED: "It is not needed",
    "settled_itself": "It settled itself",
}


def of(case: Case) -> list[Context]:
    """Every verdict ever recorded, oldest first, and what people did with the case."""
    told = []
    for event in CaseEvent.objects.filter(case=case).order_by("at", "id"):
        says = _event_words(event)
        if says:
            told.append({"by": event.actor_name, "at": event.at, "says": says, "evidence": evidence_words(event.data)})
    return told


def earlier_verdicts(case: Case) -> list[Context]:
    """What a reopened case was settled with before: who found what, when."""
    settled = CaseEvent.objects.filter(case=case, kind="settled").order_by("at", "id")
    return [{"by": one.actor_name, "at": one.at, "says": VERDICT_WORDS.get(str(one.data.get("verdict", "")), "")} for one in settled]


def _event_words(event: CaseEvent) -> str:
    data = event.data
    verdict = VERDICT_WORDS.get(str(data.get("verdict", "")), "")
    match event.kind:
        case "settled":
            belongs = f": {data['belongs_to']}" if data.get("belongs_to") else ""
            return verdict + belongs + (f" — found by {data['by_name']}, confirmed" if data.get("confirmed_by") else "")
        case "evidence":
            return f"{verdict} — kept as evidence, the case stayed open"
        case "second_asked":
            return f"{verdict} — a second person must confirm"
        case "second_disagreed":
            return "Did not agree; the case went back to the queue"
        case "passed_on":
            return f"Could not tell, passed it on{': ' + str(data['notes']) if data.get('notes') else ''}"
        case "claimed":
            return "Claimed it"
        case "taken_over":
            return f"Took it over from {data.get('from') or 'somebody'}"
        case "file":
            return f"Kept a file: {data.get('name', '')} (SHA-256 {data.get('sha256', '')})"
        case "news":
            return "More was heard of it"
        case "opened" | "reopened":
            return f"{event.kind.capitalize()}: {data.get('why', '')}"
    return ""


def evidence_words(data: Context) -> str:
    """What a finding rests on, in one line."""
    seen = str(data.get("seen_where") or "").replace("_", " ")
    seen_at = data.get("seen_at")
    when = moment_text(datetime.fromisoformat(seen_at), with_day=True) if seen_at else ""
    surplus, kept = data.get("surplus") or [], len(data.get("files") or [])
    parts = [
        f"reference {data['external_id']}" if data.get("external_id") else "",
        f"too many: {', '.join(surplus)}" if surplus else "",
        f"seen in {seen}" if seen else "",
        f"at {when} by their clock" if when else "",
        amount_text(data.get("amount"), data.get("currency")) if data.get("amount") is not None else "",
        f"sender gone: {data['sender_gone']}" if data.get("sender_gone") else "",
        count(kept, "file") if kept else "",
        str(data.get("notes") or ""),
    ]
    return ", ".join(filter(None, parts))
