"""A nemesis from its first deed to its verdict: the schedule is played, all is healed, people settle what is left, the judge reads."""

from __future__ import annotations

import io
import re
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import httpx
from django.core.management import CommandError, call_command
from django.db import connection, connections, transaction

from console.embedded.processes import ProcessFailed
from ledger import rulebook
from ledger import states as es
from ledger.models import Effect
from ledger.rulebook import NewTerms
from reconciliation.models import Case
from runs import states as rs
from runs.models import Run
from tests import checker
from tests.makers import ADMIN
from tests.nemesis import judging
from tests.nemesis.asking import ASK, Asking
from tests.nemesis.judging import Happened
from tests.nemesis.schedule import HOSTS, SERVERS, Deed
from tests.nemesis.stage import Stage
from tests.nemesis.striking import STRIKE

HEAL_S = 240.0
ASKERS = 6
TEND_EVERY_S = 1.0
EXPECTED = re.compile(
    r"(OperationalError|InterfaceError|AdminShutdown|IdleInTransactionSessionTimeout|PoolTimeout|ConnectionError|ConnectionResetError"
    r"|ConnectionRefusedError|BrokenPipeError|RemoteProtocolError|ConnectError|ReadError|ReadTimeout|CancelledError|PipelineAborted"
    r"|FileNotFoundError|KeyboardInterrupt|Unreachable|ClientDisconnected|LockNotAvailable|DeadlockDetected|NoAnswer)\b"
)
"""What a process may say when its database, a peer or itself is taken away. Anything else in a traceback is a mistake of ours."""


@dataclass
class Played:
    """What a nemesis came to."""

    seed: int
    seconds: float
    deeds: list[Deed]
    landed: Counter[str]
    """How many deeds of each kind met what they were meant for."""
    missed: Counter[str]
    answers: dict[str, int]
    wires: dict[str, int]
    ended: dict[str, dict[str, int]]
    supplier: dict[str, int]
    healed_s: float
    exceptions: dict[str, int]
    violations: list[str] = field(default_factory=list)


def play(stage: Stage, deeds: list[Deed], seed: int, seconds: float) -> Played:
    """Play these deeds, heal, wait until everything is settled or with a person, and judge."""
    written = {name: len(stage.world.log(name)) for name in SERVERS}
    rulebook.change(ADMIN, "supplier", "create_order", "EUR", NewTerms(max_amount=10_000_00), "the rule of the nemesis")
    asking = Asking(stage)
    done: list[tuple[Deed, Future[bool]]] = []
    lanes = {name: ThreadPoolExecutor(1) for name in (*SERVERS, *HOSTS)}
    askers = ThreadPoolExecutor(ASKERS)
    try:
        _dispatch(stage, asking, deeds, seconds, lanes, askers, done)
        for _, future in done:
            future.exception(120)
        began_s = time.monotonic()
        lanes["web"].submit(stage.heal).result(HEAL_S)
        connection.close()  # it was among those that were dropped
        left = _until_at_rest(asking)
        healed_s = time.monotonic() - began_s
        for name, lane in lanes.items():
            lane.submit(stage.tend, name).result(60)
        return _judged(stage, asking, deeds, seed, seconds, done, healed_s, left, written)
    finally:
        asking.close()
        stage.end_all()
        for pool in (*lanes.values(), askers):
            pool.submit(connections.close_all)
            pool.shutdown()


def _dispatch(
    stage: Stage,
    asking: Asking,
    deeds: list[Deed],
    seconds: float,
    lanes: dict[str, ThreadPoolExecutor],
    askers: ThreadPoolExecutor,
    done: list[tuple[Deed, Future[bool]]],
) -> None:
    """Every deed at its second, in the lane of the process that it meets, so that a kill and the start after it keep their order."""
    began_s, tended_s = time.monotonic(), 0.0
    for deed in deeds:
        while (wait_s := deed.at_s - (time.monotonic() - began_s)) > 0:
            time.sleep(min(wait_s, 0.2))
            if time.monotonic() - began_s - tended_s > TEND_EVERY_S:
                tended_s = time.monotonic() - began_s
                for name, lane in lanes.items():
                    lane.submit(stage.tend, name)
        if deed.what in ASK:
            done.append((deed, askers.submit(asking.deed, deed)))
        else:
            lane = lanes.get(deed.target, lanes["supplier"] if deed.what == "the supplier is told" else askers)
            done.append((deed, lane.submit(_strike, stage, deed)))
    time.sleep(max(0.0, seconds - (time.monotonic() - began_s)))


def _strike(stage: Stage, deed: Deed) -> bool:
    try:
        return STRIKE[deed.what](stage, deed)
    except (httpx.HTTPError, ProcessFailed) as error:  # the supplier that should be told is down or frozen; a start takes longer
        stage.count(f"no answer: {deed.what} ({type(error).__name__})")
        return False


def _until_at_rest(asking: Asking) -> bool:
    """People decide and settle what they can, until everything has ended or only cases are left that nobody can settle yet."""
    until_s, turn = time.monotonic() + HEAL_S, 0
    while time.monotonic() < until_s:
        turn += 1
        for work in (asking.people.decide_approvals, asking.people.decide_undos, asking.people.settle_cases):
            _patiently(work, turn)
        if _at_rest():
            return True
        time.sleep(1.0)
    return False


def _patiently(work: Callable[[int], Any], turn: int) -> None:
    try:
        work(turn)
    except httpx.HTTPError:
        return  # a connection that was cut before everything was healed


def _at_rest() -> bool:
    doubt = Effect.objects.filter(state__in=[*es.OPEN, es.DECLARED, es.CONFLICTED], unknowable=False)
    return not (doubt.exists() or Run.objects.exclude(state__in=rs.CLOSED).exists() or Case.objects.exclude(state="settled").exists())


def _judged(
    stage: Stage,
    asking: Asking,
    deeds: list[Deed],
    seed: int,
    seconds: float,
    done: list[tuple[Deed, Future[bool]]],
    healed_s: float,
    at_rest: bool,
    written: dict[str, int],
) -> Played:
    log = stage.world.supplier_log()
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ READ ONLY")
        cursor.execute("SET LOCAL idle_in_transaction_session_timeout = 0")  # a long history on a busy machine
        history = checker.export(received=judging.received(log))
    exceptions = _exceptions(stage, written)
    failed = [f"{deed.what} {deed.target}: {future.exception()!r}" for deed, future in done if future.exception()]
    said = [line for name in ("check_invariants", "verify_chain") for line in _command(name)]
    said += [f"{times} × {what} in the logs" for what, times in exceptions.items() if not EXPECTED.search(what)]
    happened = Happened(history, log, asking.stops, said + stage.by_themselves + failed)
    landed = Counter(deed.what for deed, future in done if not future.exception() and future.result())
    kinds = Counter(line["kind"] for line in log)
    carried_out = Counter((line["kind"], line["reference"]) for line in log if line["kind"] in judging.DID)
    return Played(
        seed=seed,
        seconds=seconds,
        deeds=deeds,
        landed=landed,
        missed=Counter(deed.what for deed in deeds) - landed,
        answers=dict(sorted(stage.tally.items())),
        wires=stage.answered_wrongly(),
        ended={
            "runs": dict(Counter(run["status"] for run in history.runs)),
            "effects": dict(Counter(f"{effect['role']} {effect['state']}" for effect in history.effects)),
            "known by": dict(Counter(str(effect["how_we_know"]) for effect in history.effects if effect["how_we_know"])),
            "cases": dict(Counter(f"{case['kind']} {case['state']}" for case in history.cases)),
            "attempts": {"in all": len(history.attempts), "second and later": sum(a["number"] > 1 for a in history.attempts)},
            "stops": dict(Counter(f"{cancel['mode']} {cancel['answer']}" for cancel in history.cancels)),
        },
        supplier={
            "arrivals": kinds["arrival"],
            "orders carried out": kinds["execution"],
            "orders undone": kinds["cancellation"],
            "the most often that one was carried out": max(carried_out.values(), default=0),
        },
        healed_s=round(healed_s, 1),
        exceptions=exceptions,
        violations=judging.violations(happened) + ([] if at_rest else _left()),
    )


def _left() -> list[str]:
    """What had not come to rest in time; a case that nobody can settle is no violation, and is said all the same."""
    open_cases = [f"{case.ref} {case.kind} is still {case.state}" for case in Case.objects.exclude(state="settled")]
    return [] if open_cases else ["something did not come to rest"]


def _command(name: str) -> list[str]:
    out = io.StringIO()
    try:
        call_command(name, stdout=out)
    except CommandError as error:
        return [f"{name}: {error}", *out.getvalue().splitlines()]
    return []


def _class(raised: re.Match[str]) -> str:
    """Django hides behind one name what PostgreSQL's own classes tell apart."""
    ended = "idle-in-transaction timeout" in (raised[2] or "")
    return "IdleInTransactionSessionTimeout" if ended else raised[1]


def _exceptions(stage: Stage, written: dict[str, int]) -> dict[str, int]:
    """What was raised in the servers' logs, by its class; of a chain the last one, which is what came of it."""
    found: Counter[str] = Counter()
    for name, before in written.items():
        for trace in stage.world.log(name)[before:].split("Traceback (most recent call last):")[1:]:
            if not re.search(r"^(During handling of|The above exception)", trace, re.MULTILINE):
                raised = re.search(r"^([A-Za-z_][\w.]*)(:.*)?$", trace, re.MULTILINE)
                found[f"{name}: {_class(raised) if raised else 'cut off'}"] += 1
    return dict(sorted(found.items()))
