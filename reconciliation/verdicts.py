"""From what was observed to what it means: pure functions of looks, attempts and clocks. No row, no network, no decision by a timer alone.

Absence is proved, never assumed: every sender stopped, and two empty looks that began after everything in flight must have arrived.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from ledger import states
from ledger.providers.base import Capability, Found, Look, Sought

EMPTY = "empty"
UNREACHABLE = "unreachable"


@dataclass(frozen=True)
class Reading:
    """What one look says of the effect: a verdict of the ledger (landed, pending, refused, reversed, duplicated) or empty, unreachable."""

    verdict: str
    found: Found | None = None
    several: tuple[Found, ...] = ()
    """The objects, where there is more than one."""


def read(look: Look, sought: Sought) -> Reading:
    """The meaning of a look. Objects of another reference are no information; several objects for ours are *duplicated*."""
    if look.outcome in ("unreachable", "refused_access"):
        return Reading(UNREACHABLE)
    if look.outcome == "empty":
        return Reading(EMPTY)
    ours = [found for found in look.objects if found.reference == sought.provider_reference]
    if not ours:
        return Reading(UNREACHABLE)
    did = [found for found in ours if found.state != "refused"]
    if len({found.external_id for found in did}) > 1:
        return Reading(states.DUPLICATED, did[0], tuple(did))
    chosen = did[0] if did else ours[0]
    return Reading(chosen.state, chosen)


@dataclass(frozen=True)
class Sender:
    """One attempt as absence sees it: when its sender is known to have stopped (None: never), or that nothing of it was sent."""

    stopped_at: datetime | None
    not_sent: bool = False


@dataclass(frozen=True)
class EmptyLook:
    """A usable empty look; `steady` = the effect did not change from its begin to its end."""

    began_at: datetime
    steady: bool


def nothing_arrives_after(senders: Sequence[Sender], record: Capability) -> datetime | None:
    """From when on an empty look counts: last stop + what may be in flight + the lookup's lag. None while a sender may act."""
    stops = [sender.stopped_at for sender in senders if not sender.not_sent]
    known = [stop for stop in stops if stop is not None]
    if not known or len(known) != len(stops):
        return None
    return max(known) + timedelta(seconds=record.max_in_flight_s + record.lookup_lag_s)


def counting_looks(senders: Sequence[Sender], looks: Sequence[EmptyLook], record: Capability) -> list[datetime]:
    """The begins of the empty looks that count towards absence, each far enough from the one before."""
    since = nothing_arrives_after(senders, record)
    if since is None or record.lookup in ("none", "by_id"):
        return []
    counted: list[datetime] = []
    for look in sorted(looks, key=lambda one: one.began_at):
        late_enough = look.began_at >= since
        apart = not counted or look.began_at - counted[-1] >= timedelta(seconds=record.look_spacing_s)
        if look.steady and late_enough and apart:
            counted.append(look.began_at)
    return counted


def is_absent(senders: Sequence[Sender], looks: Sequence[EmptyLook], record: Capability) -> bool:
    """Proved not to have happened, and that it cannot happen any more."""
    if senders and all(sender.not_sent for sender in senders):
        return True
    return len(counting_looks(senders, looks, record)) >= 2


def useful_look_at(senders: Sequence[Sender], looks: Sequence[EmptyLook], record: Capability) -> datetime | None:
    """When the next look could first count towards absence; None while a sender may act, or where no look ever counts."""
    since = nothing_arrives_after(senders, record)
    if since is None or record.lookup in ("none", "by_id"):
        return None
    counted = counting_looks(senders, looks, record)
    return counted[-1] + timedelta(seconds=record.look_spacing_s) if counted else since
