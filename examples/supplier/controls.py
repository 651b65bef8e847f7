"""What the supplier has been told to do wrong, and the requests it is holding because of it.

Controls live in memory: a restarted supplier is a healthy one. They never touch the store.
"""

import asyncio
import time
from collections.abc import Callable, Coroutine
from dataclasses import dataclass, field
from typing import Any

from examples.supplier.orders import Refused

HOLDS = frozenset({"before_accept", "after_accept"})
POINTS = HOLDS | {
    "after_respond", "drop_response", "http_502", "maintenance_200", "refuse", "careless",
    "lookup_down", "lookup_lag", "lookup_unauthorized", "lookup_html", "lookup_wrong_object",
    "webhook_off", "webhook_delay",
}  # fmt: skip
# For these `seconds` says how much; for all others it says for how long the control stays armed.
_MEASURED = HOLDS | {"lookup_lag", "webhook_delay"}
_DOORS = frozenset({"create", "look", "cancel"})
_CREATE_ONLY = frozenset({"before_accept", "after_accept", "after_respond", "drop_response", "refuse", "http_502"})
FIELDS = {
    "point", "seconds", "until_released", "times", "reference", "on", "for_seconds",
    "commit_after_client_gone", "executes",
}  # fmt: skip
HOLD_SECONDS_MAX = 600.0
Gone = Callable[[], Coroutine[Any, Any, None]]
"""Returns when the client of a held request has hung up."""


@dataclass
class Control:
    """One armed fault. `times_left` None means until reset (a hold without times: until released)."""

    point: str
    reference: str | None = None
    on: frozenset[str] = _DOORS
    seconds: float | None = None
    until_released: bool = False
    times_left: int | None = None
    commit_after_client_gone: bool = False
    executes: bool = False
    expires_at: float | None = None
    used: int = 0

    def shown(self) -> dict[str, Any]:
        left = None if self.expires_at is None else max(0.0, self.expires_at - time.monotonic())
        plain = {k: v for k, v in vars(self).items() if k not in {"on", "expires_at"}}
        return {**plain, "on": sorted(self.on), "armed_for_s": left}


@dataclass(eq=False)
class Held:
    """One request that is being held; `why` is set when it may go on."""

    point: str
    reference: str
    free: asyncio.Event = field(default_factory=asyncio.Event)
    why: str = ""


class Controls:
    """The armed controls and the held requests of one supplier process."""

    def __init__(self) -> None:
        self._armed: list[Control] = []
        self._held: list[Held] = []

    def arm(self, body: dict[str, Any]) -> Control:
        """Arm one control in place of one with the same point and reference; `times: 0` disarms. Refused 400."""
        control = _read(body)
        same = (control.point, control.reference)
        self._armed = [c for c in self._armed if (c.point, c.reference) != same]
        if control.times_left != 0:
            self._armed.append(control)
        return control

    def take(self, point: str, door: str, reference: str | None) -> Control | None:
        """The control that applies here and now, used up by one; aimed ones before general ones."""
        now = time.monotonic()
        self._armed = [c for c in self._armed if c.expires_at is None or c.expires_at > now]
        fits = [c for c in self._armed if c.point == point and door in c.on and c.reference in (None, reference)]
        if not fits:
            return None
        control = max(fits, key=lambda c: c.reference is not None)
        control.used += 1
        if control.times_left is not None:
            control.times_left -= 1
            if control.times_left <= 0:
                self._armed.remove(control)
        return control

    async def hold(self, control: Control, reference: str, gone: Gone) -> tuple[str, bool]:
        """Hold a request: (why it may go on: released, time_up or reset; whether its client is still there).

        A client that leaves ends the hold at once, unless the supplier commits after its client has gone.
        """
        held, client_there = Held(control.point, reference), True
        self._held.append(held)
        free, left = asyncio.create_task(held.free.wait()), asyncio.create_task(gone())
        limit_s = HOLD_SECONDS_MAX if control.seconds is None else control.seconds
        until = time.monotonic() + limit_s
        try:
            await asyncio.wait({free, left}, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            client_there = not left.done()
            if not client_there and not free.done() and control.commit_after_client_gone:
                await asyncio.wait({free}, timeout=max(0.0, until - time.monotonic()))
        finally:
            self._held.remove(held)
            free.cancel()
            left.cancel()
        waited = client_there or control.commit_after_client_gone
        return held.why or ("time_up" if waited else "client_gone"), client_there

    def release(self, *, point: str | None = None, reference: str | None = None) -> int:
        """Let held requests go on and disarm the open-ended holds that held them; returns how many were held."""
        fits = [h for h in self._held if point in (None, h.point) and reference in (None, h.reference)]
        self._armed = [
            c
            for c in self._armed
            if not (c.until_released and c.times_left is None and point in (None, c.point))
            or (reference is not None and c.reference != reference)
        ]
        return _free(fits, "released")

    def reset(self) -> int:
        """Disarm everything; held requests are dropped, and what was not executed is not executed."""
        self._armed.clear()
        return _free(list(self._held), "reset")

    def shown(self) -> dict[str, Any]:
        held = [{"point": h.point, "reference": h.reference} for h in self._held]
        return {"armed": [c.shown() for c in self._armed], "held": held}


def _free(held: list[Held], why: str) -> int:
    for one in held:
        one.why = why
        one.free.set()
    return len(held)


def _read(body: dict[str, Any]) -> Control:
    point, reference = body.get("point"), body.get("reference")
    if point not in POINTS:
        raise Refused(400, "bad_control", f"point: one of {', '.join(sorted(POINTS))}.")
    if reference is not None and not isinstance(reference, str):
        raise Refused(400, "bad_control", "reference: a text, or left out for every order.")
    seconds, for_seconds = _number(body, "seconds"), _number(body, "for_seconds")
    until_released, times = body.get("until_released", False), body.get("times")
    if point in _MEASURED and seconds is None and not (until_released and point in HOLDS):
        raise Refused(400, "bad_control", f"seconds: {point} needs seconds; only a hold may wait until_released.")
    if times is not None and (not isinstance(times, int) or isinstance(times, bool) or times < 0):
        raise Refused(400, "bad_control", "times: a whole number, 0 to disarm, or left out for always.")
    if point not in _MEASURED and for_seconds is None:
        seconds, for_seconds = None, seconds
    return Control(
        point=point,
        reference=reference,
        on=_doors(body.get("on"), point),
        seconds=seconds,
        until_released=_flag(body, "until_released"),
        times_left=times,
        commit_after_client_gone=_flag(body, "commit_after_client_gone"),
        executes=_flag(body, "executes"),
        expires_at=None if for_seconds is None else time.monotonic() + for_seconds,
    )


def _doors(on: Any, point: str) -> frozenset[str]:
    if on is None:
        return frozenset({"create"}) if point in _CREATE_ONLY else _DOORS
    if not isinstance(on, list) or not on or not _DOORS.issuperset(str(door) for door in on):
        raise Refused(400, "bad_control", f"on: a list out of {', '.join(sorted(_DOORS))}.")
    return frozenset(on)


def _flag(body: dict[str, Any], name: str) -> bool:
    value = body.get(name, False)
    if not isinstance(value, bool):
        raise Refused(400, "bad_control", f"{name}: true or false.")
    return value


def _number(body: dict[str, Any], name: str) -> float | None:
    value = body.get(name)
    if value is None:
        return None
    if not isinstance(value, int | float) or isinstance(value, bool) or not 0 <= value <= 86_400:
        raise Refused(400, "bad_control", f"{name}: seconds from 0 to 86400.")
    return float(value)
