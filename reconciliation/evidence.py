"""What a person says they found, and whether it can be taken as a finding. Free text alone is not evidence."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from datetime import datetime
from typing import Any

from reconciliation import states
from reconciliation.models import Case
from runs.errors import EvidenceRequired, Invalid

DECIDES_MONEY = (states.HAPPENED, states.HAPPENED_DIFFERENTLY, states.DID_NOT_HAPPEN)


@dataclass(frozen=True)
class Finding:
    """A person's answer. `amount` is minor units; `seen_at` is by the provider's own clock; `sender_gone` says how they know that it is.

    `surplus`: the provider's ids of the objects that are too many; `belongs_to`: our action (E-… or its id) that an orphan is news of;
    `files`: the ids of what they kept with the case.
    """

    verdict: str
    external_id: str = ""
    amount: int | None = None
    currency: str = ""
    seen_where: str = ""
    seen_at: datetime | None = None
    notes: str = ""
    sender_gone: str = ""
    surplus: tuple[str, ...] = ()
    belongs_to: str = ""
    files: tuple[str, ...] = ()

    def as_json(self) -> dict[str, Any]:
        told = asdict(self) | {"seen_at": self.seen_at.isoformat() if self.seen_at else None}
        return told | {"surplus": list(self.surplus), "files": list(self.files)}


def from_json(told: dict[str, Any]) -> Finding:
    """The finding that `as_json` wrote."""
    values = {field.name: told[field.name] for field in fields(Finding) if field.name in told}
    seen_at = values.get("seen_at")
    values |= {"seen_at": datetime.fromisoformat(seen_at) if seen_at else None}
    return Finding(**values | {name: tuple(values.get(name) or ()) for name in ("surplus", "files")})


def check(case: Case, finding: Finding) -> None:
    """Refuse what cannot be a finding of this case. Raises `Invalid` and `EvidenceRequired`, which name the field."""
    allowed = states.VERDICTS[case.kind]
    if finding.verdict not in allowed:
        raise Invalid(f"verdict must be one of {', '.join(allowed) or 'none: this case settles itself'}.", field="verdict")
    if finding.seen_where and finding.seen_where not in states.WHERE_SEEN:
        raise Invalid(f"seen_where must be one of {', '.join(states.WHERE_SEEN)}.", field="seen_where")
    if finding.amount is not None and finding.amount < 0:
        raise Invalid("amount must be a whole number of minor units, from 0.", field="amount")
    if finding.verdict in DECIDES_MONEY:
        _check_sighting(finding)
    if finding.verdict == states.SURPLUS_NAMED:
        _check_surplus(case, finding)


def _check_sighting(finding: Finding) -> None:
    happened = finding.verdict in (states.HAPPENED, states.HAPPENED_DIFFERENTLY)
    if happened and not finding.external_id.strip():
        raise EvidenceRequired("Give the provider's own reference of what happened.", field="external_id")
    if not (finding.external_id or (finding.seen_where and finding.seen_at)):
        raise EvidenceRequired("Say where you saw it and when by their clock: free text alone is not evidence.", field="seen_where")
    if finding.verdict == states.HAPPENED_DIFFERENTLY and finding.amount is None:
        raise EvidenceRequired("Give the amount that was really moved, in minor units.", field="amount")


def _check_surplus(case: Case, finding: Finding) -> None:
    found = [str(one) for one in case.facts.get("external_ids", [])]
    if not finding.surplus:
        raise EvidenceRequired("Say which of them are too many.", field="surplus")
    if unknown := sorted(set(finding.surplus) - set(found)):
        raise Invalid(f"{', '.join(unknown)[:200]}: not found. Found were {', '.join(found)}.", field="surplus")
    if set(found) <= set(finding.surplus):
        raise Invalid("One of them is what was asked for: leave that one out.", field="surplus")
