"""Short ways to bring a real run into a given situation, through the domain's own verbs. Nothing here writes rows.

`let_time_pass` is the one exception: it moves every stored time into the past, as the owner, instead of sleeping.
"""

from __future__ import annotations

import uuid
from collections import Counter
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ledger import intents, outcomes
from ledger import states as es
from ledger.models import Account, Attempt, Effect
from ledger.operations import Intent, Permission
from reconciliation import cases as case_verbs
from reconciliation import ceilings, findings, looks
from reconciliation.evidence import Finding
from reconciliation.models import Case
from runs import actors, approvals, cancellation, children, leases, lifecycle, steps, waiting
from runs.actors import Actor
from runs.errors import Problem
from runs.lifecycle import NewRun
from runs.models import Event, Run
from tests import checker, platform

WORKER = Actor("machine", "tok1", "worker token", "api", actors.MACHINE_SCOPES, frozenset({"*"}))
SUPPORT = Actor(
    "person",
    "u-support",
    "Sam Support",
    "web",
    frozenset({actors.RUN_READ, actors.RUN_CANCEL, actors.CASE_READ, actors.CASE_SETTLE, actors.COMPENSATION_REQUEST}),
)
OTHER = Actor("person", "u-other", "Olga Other", "web", SUPPORT.scopes)
ADMINISTERS = {actors.RUN_TERMINATE, actors.POLICY_CHANGE, actors.RULE_CHANGE, actors.PEOPLE_MANAGE}
ADMIN = Actor("person", "u-admin", "Ada Admin", "web", SUPPORT.scopes | ADMINISTERS)
APPROVES = frozenset({actors.RUN_READ, actors.APPROVAL_DECIDE, actors.COMPENSATION_REQUEST, actors.COMPENSATION_APPROVE})
APPROVER = Actor("person", "u-approver", "Amy Approver", "web", APPROVES)
APPROVER2 = Actor("person", "u-approver2", "Bo Approver", "web", APPROVES)


def nonce() -> str:
    return uuid.uuid4().hex


def new_run(holder: str = "w-1", ttl_s: float = 30.0, **values: Any) -> tuple[Run, str]:
    """A run that is claimed by `holder` (or only scheduled, with holder ''), and its lease token."""
    new = NewRun(**({"agent": "purchase-order", "title": "Order", "input": {}} | values))
    made = lifecycle.create(WORKER, new, holder=holder, ttl_s=ttl_s)
    return made.run, made.grant.token if made.grant else ""


def child_of(parent: Run, token: str, holder: str = "", **values: Any) -> tuple[Run, str]:
    """A child started under its parent's fence."""
    new = NewRun(**({"agent": "purchase-order", "title": "Part", "input": {}} | values))
    made = lifecycle.create(WORKER, new, holder=holder, parent_id=parent.pk, parent_lease=token)
    return made.run, made.grant.token if made.grant else ""


def step(run: Run, token: str, key: str = "order", **values: Any) -> None:
    steps.start(WORKER, run.pk, token, steps.NewStep(key=key, **values))


def intent(ref: str = "PO-1042", **values: Any) -> Intent:
    return Intent(
        **(
            {
                "step": "order",
                "provider": "supplier",
                "action": "create_order",
                "business_ref": ref,
                "request": {"lines": [1]},
                "amount": 12500,
                "currency": "EUR",
            }
            | values
        )
    )


def send(run: Run, token: str, mine: str | None = None, begin: bool = True, **values: Any) -> Permission:
    """Start the step and declare (and begin) an effect in it."""
    wanted = intent(**values)
    step(run, token, wanted.step)
    return intents.declare(WORKER, run.pk, token, mine or nonce(), wanted, begin=begin)


def tell(sent: Permission | Effect, verdict: str, attempt: int = 0, external_id: str = "", **values: Any) -> str:
    """The sender reports an outcome of the latest attempt (or of `attempt`). Returns how it was used."""
    effect = sent if isinstance(sent, Effect) else sent.effect
    number = attempt or Attempt.objects.filter(effect=effect).count()
    if verdict == "landed":
        external_id = external_id or "S-1"
    return outcomes.report(WORKER, effect.pk, number, verdict, external_id, **values)[0]


def fresh(run: Run) -> Run:
    return Run.objects.get(pk=run.pk)


def again(sent: Permission | Effect) -> Effect:
    """The effect as it is stored now."""
    return Effect.objects.get(pk=sent.pk if isinstance(sent, Effect) else sent.effect.pk)


def claim(holder: str = "w-2", **values: Any) -> tuple[Run, str]:
    taken = leases.claim(WORKER, holder, ["purchase-order"], **values)
    assert taken is not None, "nothing to claim"
    return taken[0], taken[1].token


def cancel(run: Run, **values: Any) -> cancellation.Answer:
    return cancellation.request_cancel(values.pop("actor", SUPPORT), run.pk, **values)


def refused(code: str) -> Any:
    """The block is refused with this code."""
    return pytest.raises(Problem, check=lambda problem: problem.code == code)


def let_time_pass(seconds: float) -> None:
    """Every time in the database moves `seconds` into the past, history included: as if that long had gone by."""
    with psycopg.connect(platform.OWNER_URL) as owner:
        columns = owner.execute(
            "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
            " AND data_type = 'timestamp with time zone' AND is_generated = 'NEVER'"
            " AND table_name ~ '^(runs|ledger|reconciliation|notifications)_'"
        ).fetchall()
        owner.execute("SET LOCAL session_replication_role = replica")
        for table in sorted({str(name) for name, _ in columns}):
            shifts = [
                sql.SQL("{0} = {0} - make_interval(secs => {1})").format(sql.Identifier(str(column)), seconds)
                for name, column in columns
                if name == table
            ]
            owner.execute(sql.SQL("UPDATE {} SET {}").format(sql.Identifier(table), sql.SQL(", ").join(shifts)))


def look(seconds: float = 0) -> list[str]:
    """Let time pass, then take every look that is due. Returns what was read."""
    if seconds:
        let_time_pass(seconds)
    return [looks.look(ticket) for ticket in looks.take_due()]


def sweep() -> None:
    """Everything that beats by the clock, once."""
    leases.expire_due()
    outcomes.time_out_due()
    look()
    ceilings.pass_ceilings()
    ceilings.open_wanted()
    ceilings.open_left_behind()
    ceilings.watch_stopping()
    case_verbs.settle_moot()
    ceilings.settle_outages()
    case_verbs.release_lapsed()
    steps.time_out_due()
    approvals.expire_due()
    waiting.wake_due()
    cancellation.advance_due()
    children.recount_due()


def open_cases(**conditions: Any) -> list[Case]:
    return list(Case.objects.exclude(state="settled").filter(**conditions).order_by("opened_at"))


def settle(case: Case, verdict: str, actor: Actor = SUPPORT, **values: Any) -> findings.Settled:
    """A person settles a case with proper evidence."""
    evidence: dict[str, Any] = {"seen_where": "provider_dashboard", "seen_at": case.opened_at}
    if verdict in ("happened", "happened_differently"):
        evidence["external_id"] = "S-1"
    return findings.settle(actor, case.pk, Finding(verdict, **(evidence | values)))


def kinds(run: Run) -> list[str]:
    """The kinds of the run's events, in order."""
    return list(Event.objects.filter(run=run).order_by("seq").values_list("kind", flat=True))


def assert_counters(*runs: Run) -> None:
    """The counters on the run rows, and the accounts issued, say what the effects and cases say; and the history breaks no invariant."""
    for run in map(fresh, runs or tuple(Run.objects.all())):
        effects = list(Effect.objects.filter(run=run))
        ours = [e for e in effects if e.role in (es.WORK, es.CLEANUP)]
        work = [e for e in effects if e.role == es.WORK]
        doubt = {"pending", "unknown", "ambiguous", "conflicted"}
        expected = {
            "in_flight": sum(e.state == "sending" for e in ours),
            "in_doubt": sum(e.state in doubt and not e.unknowable for e in ours),
            "unknowable": sum(e.unknowable for e in ours),
            "needs_person": Case.objects.filter(run=run).exclude(state="settled").exclude(effect__role=es.COMPENSATION).count(),
            "landed": sum(e.state in ("landed", "duplicated") for e in work),
            "effects_total": len(work),
            "doubted": sum(e.doubted for e in ours),
        }
        assert {name: getattr(run, name) for name in expected} == expected, run.ref
        last = Event.objects.filter(run=run).order_by("-seq").first()
        assert last is not None and run.version == last.seq, f"{run.ref}: version {run.version} is not its last seq"
        assert list(Event.objects.filter(run=run).order_by("seq").values_list("seq", flat=True)) == list(range(1, run.version + 1))
        assert not any(e.unknowable and e.state not in doubt for e in effects)
        assert not any(e.holds_action and e.state in ("withheld", "refused", "absent") for e in effects)
        if run.is_closed:
            _assert_account(run, work)
            assert not any(e.state in ("declared", "sending") for e in effects), "closed with something that may still be sent"
            assert (run.settled_at is not None) == (run.settlement in ("clear", "reconciled"))
    ids = [run.pk for run in runs] or None
    assert checker.violations(checker.export(ids), set(checker.CHECKS) - checker.OF_THE_PROVIDER | {"I5"}) == []


_BUCKETS = {
    "withheld": "stopped",
    "landed": "landed",
    "duplicated": "landed",
    "reversed": "undone",
    "refused": "did_not_happen",
    "absent": "did_not_happen",
}


def _is_undone(effect: Effect) -> bool:
    """Counted here once more, from the rows alone: all that landed of it was undone again, by us or elsewhere."""
    undos = [e.landed_amount or 0 for e in Effect.objects.filter(acts_on=effect, role=es.COMPENSATION, state="landed")]
    parts = [one.amount for one in effect.reversals.filter(failed_at=None)]
    return effect.state == "landed" and bool(undos or parts) and sum(undos + parts) >= (effect.landed_amount or 0)


def _assert_account(run: Run, work: list[Effect]) -> None:
    account = Account.objects.filter(run=run).order_by("-version").first()
    assert account is not None, f"{run.ref} closed without an account"
    buckets = Counter("undone" if _is_undone(e) else _BUCKETS.get(e.state, "unknown") for e in work)
    names = ("stopped", "landed", "undone", "cleaned_up", "did_not_happen", "unknown")
    told = {name: getattr(account, name) for name in names}
    assert told == {name: buckets[name] for name in names}, f"{run.ref}: its last account is not what its effects say"
    assert {name: len(account.body[name]) for name in names} == told
    assert account.effects_total == len(work) == account.body["totals"]["effects_total"]
    assert account.final == (run.settlement in ("clear", "reconciled"))
