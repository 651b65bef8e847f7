"""The invariants of the design, as pure functions over an exported history: each returns the violations it finds, as sentences.

A history is plain data (see `History`), so that hand-made violating ones can show that every check bites; `export` reads a real one.
"""

from __future__ import annotations

import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from ledger import states as es
from runs import states as rs

Row = dict[str, Any]
ACTS = frozenset({"effect.sending", "effect.declared", "step.started", "child.created"})
KNOWN = frozenset({"landed", "refused", "absent", "withheld", "duplicated", "reversed"})
BUCKETS = ("stopped", "landed", "undone", "cleaned_up", "did_not_happen", "unknown")


@dataclass
class History:
    """What happened. Rows are dictionaries with the columns of the tables; `received` is the provider's own log of executions."""

    runs: list[Row] = field(default_factory=list)
    events: list[Row] = field(default_factory=list)
    effects: list[Row] = field(default_factory=list)
    attempts: list[Row] = field(default_factory=list)
    evidence: list[Row] = field(default_factory=list)
    leases: list[Row] = field(default_factory=list)
    cancels: list[Row] = field(default_factory=list)
    cases: list[Row] = field(default_factory=list)
    accounts: list[Row] = field(default_factory=list)
    received: list[Row] = field(default_factory=list)
    """What reached the provider: `operation_id`, `attempt` (if told) and whether it was `executed`."""

    def events_of(self, run: Any) -> list[Row]:
        return sorted((e for e in self.events if e["run"] == run), key=lambda e: e["seq"])

    def attempts_of(self, effect: Any) -> list[Row]:
        return sorted((a for a in self.attempts if a["effect"] == effect), key=lambda a: a["number"])


def i1_nothing_starts_after_the_cancel(h: History) -> list[str]:
    """No work effect, model call, step or child start of a run has a position after its cancel."""
    found = []
    cleanup = {e["ref"] for e in h.effects if e["role"] != es.WORK}
    for run in h.runs:
        position = run["cancel_position"]
        for event in h.events_of(run["id"]) if position is not None else []:
            if event["seq"] > position and event["kind"] in ACTS and event["subject"] not in cleanup:
                found.append(f"{run['ref']}: {event['kind']} {event['subject']} at {event['seq']}, after its cancel at {position}")
    return found


def i2_the_receipt_is_exact(h: History) -> list[str]:
    """A receipt's in-flight list is the attempts whose sender was not known to be stopped at the cancel, and no other."""
    found = []
    stops = _stops(h)
    for cancel in h.cancels:
        if cancel["answer"] != "accepted" or cancel["receipt"] is None:
            continue
        # What undoes an effect belongs to its request: a cancel neither lists nor touches it.
        undos = {e["operation_id"] for e in h.effects if e["role"] == es.COMPENSATION}
        listed = {(line["operation_id"], line["attempt"]) for line in cancel["receipt"]["in_flight"]}
        alive = {
            (str(a["effect"]), a["number"])
            for a in h.attempts
            if a["run"] == cancel["run"]
            and a["effect"] not in undos
            and a["position"] < cancel["position"]
            and not any(at <= cancel["at"] for at in stops[a["effect"], a["number"]])
        }
        if listed != alive:
            found.append(f"receipt of {cancel['run']} lists {sorted(listed)}, but in flight were {sorted(alive)}")
    return found


def _stops(h: History) -> dict[tuple[Any, int], list[datetime]]:
    """When each attempt's sender became known to be stopped: by its own report, or by a stop that was kept as evidence."""
    stops: dict[tuple[Any, int], list[datetime]] = defaultdict(list)
    for one in h.evidence:
        if one["attempt"] is not None and (one["source"] == "sender" or one["verdict"] == "sender_stopped"):
            stops[one["effect"], one["attempt"]].append(one["at"])
    return stops


def i3_epochs_rise_and_acts_carry_the_current_one(h: History) -> list[str]:
    """Every claim raises the epoch by one, and what is done between two claims carries the first one's."""
    found = []
    for run in h.runs:
        current = 0
        for event in h.events_of(run["id"]):
            epoch = event["data"].get("epoch")
            if event["kind"] in ("run.claimed", "cleanup.claimed"):
                if epoch != current + 1:
                    found.append(f"{run['ref']}: epoch {epoch} follows {current}")
                current = epoch
            elif event["kind"] in ACTS and epoch is not None and epoch != current:
                found.append(f"{run['ref']}: {event['kind']} at {event['seq']} under epoch {epoch} while {current} held the lease")
        epochs = sorted(lease["epoch"] for lease in h.leases if lease["run"] == run["id"])
        if epochs != list(range(1, len(epochs) + 1)):
            found.append(f"{run['ref']}: its leases have the epochs {epochs}")
    return found


def i4_states_move_as_they_may(h: History) -> list[str]:
    """Every transition of an effect is in the table, closed runs stay closed, and what was known changes only openly."""
    found = []
    for effect in h.effects:
        state = None
        for event in h.events_of(effect["run"]):
            if event["subject"] != effect["ref"] or not event["kind"].startswith("effect."):
                continue
            new = event["kind"].removeprefix("effect.")
            if new not in es.STATES:
                continue
            if state is not None and new != state and new not in es.MOVES[state]:
                found.append(f"{effect['ref']}: {state} to {new} at {event['seq']}")
            state = new
        if state is not None and state != effect["state"]:
            found.append(f"{effect['ref']}: is {effect['state']}, but its last event says {state}")
    undos = {e["ref"] for e in h.effects if e["role"] == es.COMPENSATION}  # begun by its request, whatever the run's state
    for run in h.runs:
        closed = None
        for event in h.events_of(run["id"]):
            new = event["kind"].removeprefix("run.")
            if event["kind"].startswith("run.") and new in rs.CLOSED:
                if closed is not None:
                    found.append(f"{run['ref']}: closed as {closed}, then as {new}")
                closed = new
            elif closed is not None and event["kind"] in (*ACTS, "run.claimed", "run.woke") and event["subject"] not in undos:
                found.append(f"{run['ref']}: {event['kind']} at {event['seq']}, after it had closed")
        if closed is not None and closed != run["state"]:
            found.append(f"{run['ref']}: is {run['state']}, but closed as {closed}")
    return found


def i5_executed_at_most_once(h: History) -> list[str]:
    """One execution of an operation; a second attempt only after every earlier one was not sent, or was over as absent."""
    found = []
    for operation, count in Counter(str(r["operation_id"]) for r in h.received if r["executed"]).items():
        if count > 1:
            found.append(f"{operation} was executed {count} times")
    for effect in h.effects:
        told = h.events_of(effect["run"])
        for attempt in h.attempts_of(effect["operation_id"])[1:]:
            before = [e for e in told if e["subject"] == effect["ref"] and e["seq"] < attempt["position"]]
            moves = [e["kind"] for e in before if e["kind"].removeprefix("effect.") in es.STATES]
            if not moves or moves[-1] not in ("effect.declared", "effect.absent"):
                last = moves[-1] if moves else "nothing"
                found.append(f"{effect['ref']}: attempt {attempt['number']} began after {last}")
    return found


def i6_absence_is_proved(h: History) -> list[str]:
    """Whatever is absent had, before that, a stop of every attempt's sender (or nothing of it was sent)."""
    found = []
    stops = _stops(h)
    for effect in h.effects:
        for event in h.events_of(effect["run"]):
            if event["subject"] != effect["ref"] or event["kind"] != "effect.absent":
                continue
            for attempt in h.attempts_of(effect["operation_id"]):
                earlier = attempt["position"] < event["seq"]
                if earlier and not any(at <= event["at"] for at in stops[effect["operation_id"], attempt["number"]]):
                    found.append(f"{effect['ref']}: absent, but the sender of attempt {attempt['number']} was never known to be stopped")
    return found


def i8_closed_and_counted(h: History) -> list[str]:
    """A closed run has nothing in flight, and every counter is what the effects and cases say."""
    found = []
    for run in h.runs:
        ours = [e for e in h.effects if e["run"] == run["id"] and e["role"] != es.COMPENSATION]
        expected: Counter[str] = Counter()
        for effect in ours:
            expected.update(es.counts(effect["state"], effect["role"], effect["unknowable"], effect["doubted"]))
        undos = {e["operation_id"] for e in h.effects if e["role"] == es.COMPENSATION}
        expected["needs_person"] = sum(
            c["run"] == run["id"] and c["state"] != "settled" and c["effect"] not in undos for c in h.cases
        )  # a case about an undo counts for its request
        for name in (*es.COUNTERS, "needs_person"):
            if run[name] != expected[name]:
                found.append(f"{run['ref']}: {name} is {run[name]}, but its effects and cases say {expected[name]}")
        if run["state"] in rs.CLOSED and any(e["state"] in ("sending", "declared") for e in ours):
            found.append(f"{run['ref']}: closed with something that may still be sent")
    return found


def i10_known_means_executed(h: History) -> list[str]:
    """Settled by machines, landed means executed once; refused, withheld and absent mean never."""
    executed = Counter(str(r["operation_id"]) for r in h.received if r["executed"])
    found = []
    for effect in h.effects:
        times = executed[str(effect["operation_id"])]
        if effect["how_we_know"] == "person":
            continue
        if effect["state"] == "landed" and times != 1:
            found.append(f"{effect['ref']}: landed, but executed {times} times")
        if effect["state"] in ("refused", "withheld", "absent") and times:
            found.append(f"{effect['ref']}: {effect['state']}, but executed {times} times")
    return found


def i11_one_digest_and_one_holder(h: History) -> list[str]:
    """One digest for an operation id; one effect that holds a business action."""
    found = []
    digests: dict[str, set[str]] = defaultdict(set)
    for effect in h.effects:
        digests[str(effect["operation_id"])].add(effect["request_digest"])
    found += [f"{operation} stands for {len(of)} payloads" for operation, of in digests.items() if len(of) > 1]
    holders = Counter((e["provider"], e["action"], e["business_ref"], e["occurrence"]) for e in h.effects if e["holds_action"])
    found += [f"{' '.join(map(str, action))} is held {count} times" for action, count in holders.items() if count > 1]
    for effect in h.effects:
        if effect["holds_action"] == (effect["state"] in ("withheld", "refused", "absent")) and effect["state"] in (
            "withheld",
            "refused",
            "absent",
            "declared",
            "sending",
        ):
            found.append(f"{effect['ref']}: {effect['state']} and holds_action is {effect['holds_action']}")
    return found


def i14_the_account_adds_up(h: History) -> list[str]:
    """The last account of a closed run has every work effect in exactly one bucket, and its versions follow each other."""
    found = []
    for run in h.runs:
        issued = sorted((a for a in h.accounts if a["run"] == run["id"]), key=lambda a: a["version"])
        if run["state"] in rs.CLOSED and not issued:
            found.append(f"{run['ref']}: closed without an account")
        if [a["version"] for a in issued] != list(range(1, len(issued) + 1)):
            found.append(f"{run['ref']}: account versions {[a['version'] for a in issued]}")
        for account in issued:
            if sum(account[name] for name in BUCKETS) != account["effects_total"]:
                found.append(f"{run['ref']}: version {account['version']} does not add up")
        if issued:
            listed = Counter(line["ref"] for name in BUCKETS for line in issued[-1]["body"][name])
            work = {e["ref"] for e in h.effects if e["run"] == run["id"] and e["role"] == es.WORK}
            if set(listed) != work or any(count > 1 for count in listed.values()):
                found.append(f"{run['ref']}: its account lists {sorted(listed.elements())}, its effects are {sorted(work)}")
    return found


CHECKS: dict[str, Callable[[History], list[str]]] = {
    "I1": i1_nothing_starts_after_the_cancel,
    "I2": i2_the_receipt_is_exact,
    "I3": i3_epochs_rise_and_acts_carry_the_current_one,
    "I4": i4_states_move_as_they_may,
    "I5": i5_executed_at_most_once,
    "I6": i6_absence_is_proved,
    "I8": i8_closed_and_counted,
    "I10": i10_known_means_executed,
    "I11": i11_one_digest_and_one_holder,
    "I14": i14_the_account_adds_up,
}
OF_THE_PROVIDER = frozenset({"I5", "I10"})
"""These compare with the provider's own log; without one only what our own rows say of them is checked."""


def violations(h: History, only: Iterable[str] = tuple(CHECKS)) -> list[str]:
    """Every violation of the named invariants, with the invariant's number."""
    return [f"{name} {sentence}" for name in only for sentence in CHECKS[name](h)]


def export(run_ids: Iterable[uuid.UUID] | None = None, received: Iterable[Row] | None = None) -> History:
    """The history of these runs (of all, without ids), read from the database; `received` is the provider's log, if there is one.

    Without a provider's log I10 is not meaningful: leave it out of `violations`.
    """
    from ledger.models import Account, Attempt, Effect, Evidence
    from reconciliation.models import Case
    from runs.models import CancelRequest, Event, Lease, Run

    runs = Run.objects.all() if run_ids is None else Run.objects.filter(pk__in=list(run_ids))
    ids = list(runs.values_list("pk", flat=True))

    def rows(model: Any, **where: Any) -> list[Row]:
        renamed = {"run_id": "run", "effect_id": "effect"}
        found = model.objects.filter(**where).values(*[f.attname for f in model._meta.concrete_fields])
        return [{renamed.get(name, name): value for name, value in row.items()} for row in found]

    return History(
        runs=rows(Run, pk__in=ids),
        events=rows(Event, run__in=ids),
        effects=rows(Effect, run__in=ids),
        attempts=rows(Attempt, run__in=ids),
        evidence=rows(Evidence, effect__run__in=ids),
        leases=rows(Lease, run__in=ids),
        cancels=rows(CancelRequest, run__in=ids),
        cases=rows(Case, run__in=ids),
        accounts=rows(Account, run__in=ids),
        received=list(received or ()),
    )
