"""The invariants of the design, as pure functions over an exported history: each yields what it finds, by run, as a sentence.

They know none of the code that writes the rows. The suite adds those that need the provider's own log (`tests/checker.py`), and a
violating history for every one.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from typing import Any

from ledger import states as es
from reconciliation.records import History, Row, grouped
from runs import states as rs

Found = Iterator[tuple[Any, str]]
"""The id of a run, and what is wrong with it."""

ACTS = frozenset({"effect.sending", "effect.declared", "step.started", "child.created"})
BUCKETS = ("stopped", "landed", "undone", "cleaned_up", "did_not_happen", "unknown")
NOT_HELD = frozenset({"withheld", "refused", "absent"})


def i1_nothing_starts_after_the_cancel(h: History) -> Found:
    """No work effect, model call, step or child start of a run has a position after its cancel."""
    told, acts = h.told(), _acts(h)
    for run in h.runs:
        position = run["cancel_position"]
        for event in told[run["id"]] if position is not None else ():
            if event["seq"] > position and acts(event):
                what = f"{event['kind']} {event['subject']} at {event['seq']}"
                yield run["id"], f"{run['ref']}: {what}, after its cancel at {position}"


def quiet_means_quiet(h: History) -> Found:
    """Nothing starts after a run was said to be quiet, however it was stopped."""
    told, acts = h.told(), _acts(h)
    for run in h.runs:
        quiet = None
        for event in told[run["id"]]:
            if event["kind"] == "run.quiet":
                quiet = event["seq"]
            elif quiet is not None and acts(event):
                yield run["id"], f"{run['ref']}: {event['kind']} {event['subject']} at {event['seq']}, after it was quiet at {quiet}"


def _acts(h: History) -> Callable[[Row], bool]:
    """Whether an event is the start of work: cleanup and compensation have a permission of their own."""
    other = {e["ref"] for e in h.effects if e["role"] != es.WORK}
    return lambda event: event["kind"] in ACTS and event["subject"] not in other


def i2_the_receipt_is_exact(h: History) -> Found:
    """A receipt's in-flight list is the attempts whose sender was not known to be stopped at the cancel, and no other."""
    stops, attempts = _stops(h), grouped(h.attempts, "run")
    undos = _undos(h)  # what undoes an effect belongs to its request: a cancel neither lists nor touches it
    for cancel in h.cancels:
        if cancel["answer"] != "accepted" or cancel["receipt"] is None:
            continue
        listed = {(line["operation_id"], line["attempt"]) for line in cancel["receipt"]["in_flight"]}
        alive = {
            (str(a["effect"]), a["number"])
            for a in attempts[cancel["run"]]
            if a["effect"] not in undos
            and a["position"] < cancel["position"]
            and not any(at <= cancel["at"] for at in stops[a["effect"], a["number"]])
        }
        if listed != alive:
            yield cancel["run"], f"receipt of {cancel['run']} lists {sorted(listed)}, but in flight were {sorted(alive)}"


def _undos(h: History) -> set[Any]:
    """The operation ids of what undoes something."""
    return {e["operation_id"] for e in h.effects if e["role"] == es.COMPENSATION}


def _stops(h: History) -> dict[tuple[Any, int], list[datetime]]:
    """When each attempt's sender became known to be stopped: by its own report, or by a stop that was kept as evidence."""
    stops: dict[tuple[Any, int], list[datetime]] = defaultdict(list)
    for one in h.evidence:
        if one["attempt"] is not None and (one["source"] == "sender" or one["verdict"] == "sender_stopped"):
            stops[one["effect"], one["attempt"]].append(one["at"])
    return stops


def i3_epochs_rise_and_acts_carry_the_current_one(h: History) -> Found:
    """Every claim raises the epoch by one, and what is done between two claims carries the first one's."""
    told, leases = h.told(), grouped(h.leases, "run")
    for run in h.runs:
        current = 0
        for event in told[run["id"]]:
            epoch = event["data"].get("epoch")
            if event["kind"] in ("run.claimed", "cleanup.claimed"):
                if epoch != current + 1:
                    yield run["id"], f"{run['ref']}: epoch {epoch} follows {current}"
                current = epoch
            elif event["kind"] in ACTS and epoch is not None and epoch != current:
                what = f"{event['kind']} at {event['seq']} under epoch {epoch} while {current} held the lease"
                yield run["id"], f"{run['ref']}: {what}"
        epochs = sorted(lease["epoch"] for lease in leases[run["id"]])
        if epochs != list(range(1, len(epochs) + 1)):
            yield run["id"], f"{run['ref']}: its leases have the epochs {epochs}"


def i4_states_move_as_they_may(h: History) -> Found:
    """Every transition of an effect is in the table, closed runs stay closed, and what was known changes only openly."""
    told = h.told()
    for effect in h.effects:
        state = None
        for event in told[effect["run"]]:
            if event["subject"] != effect["ref"] or not event["kind"].startswith("effect."):
                continue
            new = event["kind"].removeprefix("effect.")
            if new not in es.STATES:
                continue
            if state is not None and new != state and new not in es.MOVES[state]:
                yield effect["run"], f"{effect['ref']}: {state} to {new} at {event['seq']}"
            state = new
        if state is not None and state != effect["state"]:
            yield effect["run"], f"{effect['ref']}: is {effect['state']}, but its last event says {state}"
    undos = {e["ref"] for e in h.effects if e["role"] == es.COMPENSATION}  # begun by its request, whatever the run's state
    for run in h.runs:
        yield from _stays_closed(run, [event for event in told[run["id"]] if event["subject"] not in undos])


def _stays_closed(run: Row, events: list[Row]) -> Found:
    closed = None
    for event in events:
        new = event["kind"].removeprefix("run.")
        if event["kind"].startswith("run.") and new in rs.CLOSED:
            if closed is not None:
                yield run["id"], f"{run['ref']}: closed as {closed}, then as {new}"
            closed = new
        elif closed is not None and event["kind"] in (*ACTS, "run.claimed", "run.woke"):
            yield run["id"], f"{run['ref']}: {event['kind']} at {event['seq']}, after it had closed"
    if closed is not None and closed != run["state"]:
        yield run["id"], f"{run['ref']}: is {run['state']}, but closed as {closed}"


def i5_a_second_attempt_only_when_it_is_safe(h: History) -> Found:
    """A second attempt begins only after every earlier one was not sent, or was over as absent."""
    told, attempts = h.told(), grouped(h.attempts, "effect")
    for effect in h.effects:
        for attempt in sorted(attempts[effect["operation_id"]], key=lambda a: a["number"])[1:]:
            before = [e for e in told[effect["run"]] if e["subject"] == effect["ref"] and e["seq"] < attempt["position"]]
            moves = [e["kind"] for e in before if e["kind"].removeprefix("effect.") in es.STATES]
            if not moves or moves[-1] not in ("effect.declared", "effect.absent"):
                last = moves[-1] if moves else "nothing"
                yield effect["run"], f"{effect['ref']}: attempt {attempt['number']} began after {last}"


def i6_absence_is_proved(h: History) -> Found:
    """Whatever is absent had, before that, a stop of every attempt's sender (or nothing of it was sent)."""
    stops, told, attempts = _stops(h), h.told(), grouped(h.attempts, "effect")
    for effect in h.effects:
        for event in told[effect["run"]]:
            if event["subject"] != effect["ref"] or event["kind"] != "effect.absent":
                continue
            for attempt in attempts[effect["operation_id"]]:
                earlier = attempt["position"] < event["seq"]
                if earlier and not any(at <= event["at"] for at in stops[effect["operation_id"], attempt["number"]]):
                    why = f"the sender of attempt {attempt['number']} was never known to be stopped"
                    yield effect["run"], f"{effect['ref']}: absent, but {why}"


def i7_an_undo_had_its_approvers(h: History) -> Found:
    """What was sent to undo something had enough distinct approvers of exactly that request, none of them excluded, before it expired."""
    decisions = grouped(h.decisions, "compensation")
    for request in h.compensations:
        if request["begun_at"] is None:
            continue
        approved = [d for d in decisions[request["id"]] if d["decision"] == "approved" and d["at"] <= request["begun_at"]]
        bound = {d["by"] for d in approved if d["version"] == request["version"] and d["digest"] == request["digest"]}
        allowed = bound - {request["requested_by"], *request["editors"], *request["excluded"]}
        if len(allowed) < request["approvals_needed"]:
            yield request["run"], f"{request['ref']}: sent with {len(allowed)} of {request['approvals_needed']} approvals"
        if request["begun_at"] >= request["expires_at"]:
            yield request["run"], f"{request['ref']}: sent after it had expired"


def i8_closed_and_counted(h: History) -> Found:
    """A closed run has nothing in flight, every counter is what the effects and cases say, and the version is the last event's."""
    effects, cases, told, undos = grouped(h.effects, "run"), grouped(h.cases, "run"), h.told(), _undos(h)
    for run in h.runs:
        ours = [e for e in effects[run["id"]] if e["role"] != es.COMPENSATION]
        expected: Counter[str] = Counter()
        for effect in ours:
            expected.update(es.counts(effect["state"], effect["role"], effect["unknowable"], effect["doubted"]))
        open_cases = [c for c in cases[run["id"]] if c["state"] != "settled" and c.get("effect") not in undos]  # its request's
        expected["needs_person"] = len(open_cases)
        for name in (*es.COUNTERS, "needs_person"):
            if run[name] != expected[name]:
                yield run["id"], f"{run['ref']}: {name} is {run[name]}, but its effects and cases say {expected[name]}"
        if run["state"] in rs.CLOSED and any(e["state"] in ("sending", "declared") for e in ours):
            yield run["id"], f"{run['ref']}: closed with something that may still be sent"
        seqs = [event["seq"] for event in told[run["id"]]]
        if seqs != list(range(1, run["version"] + 1)):
            yield run["id"], f"{run['ref']}: is at version {run['version']}, but has {len(seqs)} events up to {seqs[-1] if seqs else 0}"


def i9_every_attempt_has_its_sending(h: History) -> Found:
    """Whatever may have left had its durable "sending" at the position that the attempt names."""
    refs = {e["operation_id"]: e["ref"] for e in h.effects}
    sendings = {(e["run"], e["seq"]): e["subject"] for e in h.events if e["kind"] == "effect.sending"}
    for attempt in h.attempts:
        ref = refs.get(attempt["effect"])
        if sendings.get((attempt["run"], attempt["position"])) != ref:
            yield attempt["run"], f"{ref}: attempt {attempt['number']} has no record of its sending at {attempt['position']}"


def i11_one_digest_and_one_holder(h: History) -> Found:
    """One digest for an operation id; one effect that holds a business action."""
    for operation, of in grouped(h.effects, "operation_id").items():
        if len({effect["request_digest"] for effect in of}) > 1:
            yield of[0]["run"], f"{operation} stands for {len(of)} payloads"
    held: dict[tuple[Any, ...], list[Row]] = defaultdict(list)
    for effect in h.effects:
        if effect["holds_action"]:
            held[effect["provider"], effect["action"], effect["business_ref"], effect["occurrence"]].append(effect)
        if effect["holds_action"] == (effect["state"] in NOT_HELD) and effect["state"] in NOT_HELD | {"declared", "sending"}:
            yield effect["run"], f"{effect['ref']}: {effect['state']} and holds_action is {effect['holds_action']}"
    for action, by in held.items():
        if len(by) > 1:
            yield by[-1]["run"], f"{' '.join(map(str, action))} is held {len(by)} times"


def i13_every_cancel_has_its_place(h: History) -> Found:
    """Every accepted request has its event at its position, and every cancelled run such an event."""
    accepted = {(e["run"], e["seq"]): e["kind"] for e in h.events if e["kind"] in ("cancel.accepted", "terminate.accepted")}
    for cancel in h.cancels:
        if cancel["answer"] == "accepted" and accepted.get((cancel["run"], cancel["position"])) != f"{cancel['mode']}.accepted":
            yield cancel["run"], f"{cancel['mode']} of {cancel['run']}: no event says so at {cancel['position']}"
    for run in h.runs:
        if run["cancel_position"] is not None and (run["id"], run["cancel_position"]) not in accepted:
            yield run["id"], f"{run['ref']}: is cancelled at {run['cancel_position']}, where no event says so"


def i14_the_account_adds_up(h: History) -> Found:
    """The last account of a closed run has every work effect in exactly one bucket, and its versions follow each other."""
    accounts, effects = grouped(h.accounts, "run"), grouped(h.effects, "run")
    for run in h.runs:
        issued = sorted(accounts[run["id"]], key=lambda a: a["version"])
        if run["state"] in rs.CLOSED and not issued:
            yield run["id"], f"{run['ref']}: closed without an account"
        if [a["version"] for a in issued] != list(range(1, len(issued) + 1)):
            yield run["id"], f"{run['ref']}: account versions {[a['version'] for a in issued]}"
        for account in issued:
            if sum(account[name] for name in BUCKETS) != account["effects_total"]:
                yield run["id"], f"{run['ref']}: version {account['version']} does not add up"
        if issued:
            listed = Counter(line["ref"] for name in BUCKETS for line in issued[-1]["body"][name])
            work = {e["ref"] for e in effects[run["id"]] if e["role"] == es.WORK}
            if set(listed) != work or any(count > 1 for count in listed.values()):
                yield run["id"], f"{run['ref']}: its account lists {sorted(listed.elements())}, its effects are {sorted(work)}"


def i15_every_decision_has_its_event(h: History) -> Found:
    """Whatever a person decided about an approval has its event, by that person."""
    said = {(e["run"], e["kind"], e["subject"]): e for e in h.events if e["kind"] in ("approval.approved", "approval.rejected")}
    for approval in h.approvals:
        if approval["state"] in ("approved", "rejected"):
            event = said.get((approval["run"], f"approval.{approval['state']}", approval["key"]))
            if event is None or event["actor_id"] != approval["decided_by"]:
                yield approval["run"], f"approval {approval['key']}: {approval['state']} by {approval['decided_by']}, and no event says so"


CHECKS: dict[str, Callable[[Any], Found]] = {
    "I1": i1_nothing_starts_after_the_cancel,
    "quiet": quiet_means_quiet,
    "I2": i2_the_receipt_is_exact,
    "I3": i3_epochs_rise_and_acts_carry_the_current_one,
    "I4": i4_states_move_as_they_may,
    "I5": i5_a_second_attempt_only_when_it_is_safe,
    "I6": i6_absence_is_proved,
    "I7": i7_an_undo_had_its_approvers,
    "I8": i8_closed_and_counted,
    "I9": i9_every_attempt_has_its_sending,
    "I11": i11_one_digest_and_one_holder,
    "I13": i13_every_cancel_has_its_place,
    "I14": i14_the_account_adds_up,
    "I15": i15_every_decision_has_its_event,
}


def violations(h: History, only: Iterable[str] = tuple(CHECKS)) -> list[tuple[str, Any, str]]:
    """Every violation of the named invariants: which one, of which run, in a sentence."""
    return [(name, run, sentence) for name in only for run, sentence in CHECKS[name](h)]
