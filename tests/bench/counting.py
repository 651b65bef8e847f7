"""What a list of races says: how late the cancel was heard, and how much was started after it had been accepted."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from tests.bench.racing import Race


@dataclass(frozen=True)
class Counted:
    """`after`: actions started after the acceptance, in `races_after` of the races; `listed` of them the canceller had been told of in
    the answer to the cancel. `heard_ms`: from acceptance until the acting code was told, 0 when that was before the answer was back
    (`knew_ms`: until its process knew, where that is told apart); `unheard`: never seen."""

    races: int
    actions: int
    after: int
    races_after: int
    listed: int
    heard_ms: list[float]
    knew_ms: list[float]
    unheard: int

    @property
    def not_listed(self) -> int:
        """Actions started after the cancel was accepted that nobody was told of."""
        return self.after - self.listed


def count(races: list[Race], in_flight: Mapping[str, Collection[str]] | None = None) -> Counted:
    """Count. `in_flight`: for each race the names of the actions that the answer to its cancel lists as on the wire."""
    told = in_flight or {}
    late = {race.name: [name for at, name in race.starts if at > race.accepted] for race in races}
    return Counted(
        races=len(races),
        actions=sum(len(race.starts) for race in races),
        after=sum(len(names) for names in late.values()),
        races_after=sum(1 for names in late.values() if names),
        listed=sum(1 for race, names in late.items() for name in names if name in told.get(race, ())),
        heard_ms=_late(races, [race.heard for race in races]),
        knew_ms=_late(races, [race.knew for race in races]),
        unheard=sum(1 for race in races if race.heard is None),
    )


def _late(races: list[Race], moments: list[float | None]) -> list[float]:
    return [max(0.0, at - race.accepted) * 1000 for race, at in zip(races, moments, strict=True) if at is not None]
