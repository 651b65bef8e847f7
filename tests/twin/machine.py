"""The twin: anybody does anything to the real domain functions, in an order that Hypothesis invents; then the checker reads what happened.

Whatever is refused is refused with a `Problem`; every other exception, and every violation found at the end, fails the example.
"""

from __future__ import annotations

import logging
import sys
import uuid
from collections import Counter
from collections.abc import Callable
from typing import Any, ClassVar

from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule

from ledger import intents, outcomes
from ledger import states as es
from ledger.models import Effect
from reconciliation import cases, findings, webhooks
from reconciliation import states as cs
from reconciliation.models import Case
from runs import approvals, leases, lifecycle, preview, steps, waiting
from runs import states as rs
from runs.approvals import Question
from runs.errors import Problem
from runs.models import Approval, Run
from tests import checker, makers
from tests.conftest import empty_tables
from tests.fakes import FAKE, FakeProvider, webhook
from tests.makers import ADMIN, APPROVER, OTHER, SUPPORT, WORKER
from tests.twin import people
from tests.twin.interleaving import Meanwhile
from tests.twin.outside import Outside, Packet, Worker

AGENT = "purchase-order"
LEASE_S = 60.0
PROMISES = {"max_in_flight_s": 60.0, "look_spacing_s": 30.0, "person_after_s": 3600.0}
LONGER_THAN_ANY_PACKET_S = 65.0
REFERENCES = ("PO-1", "PO-2", "PO-3")
PATIENCE = 1
"""How often a worker that was refused tries again before it stops."""
OPENINGS = {"dies": 1, "sleeps": 1, "something else": 2, "no answer": 4}
"""How many acts of a plan lead there."""
RUNS_MAX = 6
LOOKS_TO_PROVE = 4
ROUNDS_MAX = 14

which = st.integers(0, 11)
some = st.integers(0, 4)
maybe = st.booleans()
often, seldom = st.sampled_from([True, True, True, False]), st.sampled_from([False, False, False, True])


class Twin(RuleBasedStateMachine):
    """`provider` and `meanwhile` are given by the test; `tally` counts what was tried and how it was answered, over all examples."""

    provider: ClassVar[FakeProvider]
    meanwhile: ClassVar[Meanwhile]
    tally: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        empty_tables()
        self.outside = Outside()
        self.provider.answer = self.outside.look
        self.holders = self.events = 0
        self.failed_sweeps: list[str] = []
        self.listening = _Listening(self.failed_sweeps)
        logging.getLogger("runs.sweeps").addHandler(self.listening)
        self.tally["examples"] += 1

    # How anybody asks ------------------------------------------------------------------------------------------------

    def ask(self, what: str, act: Callable[[], Any]) -> Any:
        """What `act` returns, or None when it is refused; counted either way."""
        try:
            answer = act()
        except Problem as refused:
            self.tally[f"{what}: {refused.code}"] += 1
            return None
        self.tally[what] += 1
        return answer

    def worker(self, number: int) -> Worker | None:
        alive = [worker for worker in reversed(self.outside.workers) if not worker.gone]  # who has a lease before who had one
        return alive[number % len(alive)] if alive else None

    def packets_land(self, how: str) -> None:
        for packet in list(self.outside.under_way):
            self.outside.arrive(packet, how)

    # Runs and workers ------------------------------------------------------------------------------------------------

    @initialize(resend=maybe, opening=st.sampled_from(["", *OPENINGS]), acts=some, cancelled_meanwhile=seldom)
    def begins(self, resend: bool, opening: str, acts: int, cancelled_meanwhile: bool) -> None:
        """The first run, as it comes, or led at once to what chance comes to in hardly any history."""
        self.provider.capability = self.provider.capability.with_settings(PROMISES | {"after_absent": "resend" if resend else "ask"})
        makers.new_run(holder="", business_ref=REFERENCES[0])
        self.claims(OPENINGS.get(opening, acts), cancelled_meanwhile)
        if opening in ("dies", "sleeps") and self.about_to_write():
            self.what_never_left_is_looked_for(0, opening == "dies", True, acts, cancelled_meanwhile)
        elif opening == "something else" and self.outside.under_way:
            self.something_else_comes_of_it(0, "agrees")
        elif opening == "no answer":
            self.claims(acts, cancelled_meanwhile)

    @precondition(lambda self: Run.objects.count() < RUNS_MAX)
    @rule(reference=st.sampled_from(REFERENCES), acts=some, cancelled_meanwhile=seldom)
    def a_run_is_created(self, reference: str, acts: int, cancelled_meanwhile: bool) -> None:
        makers.new_run(holder="", business_ref=reference)
        self.claims(acts, cancelled_meanwhile)

    @precondition(lambda self: Run.objects.filter(state=rs.SCHEDULED, waits_for=None).exists())
    @rule(acts=some, cancelled_meanwhile=seldom)
    def claims(self, acts: int, cancelled_meanwhile: bool) -> None:
        """A worker takes a run, and does so many of its plan's acts before anybody else does anything."""
        self.holders += 1
        taken = self.ask("claim", lambda: leases.claim(WORKER, f"w-{self.holders}", [AGENT], ttl_s=LEASE_S))
        if taken is not None:
            worker = Worker(f"w-{self.holders}", taken[0], taken[1].token)
            self.outside.workers.append(worker)
            self.ask("step", lambda: makers.step(worker.run, worker.token))
            for _ in range(acts):
                self.goes_on(worker, cancelled_meanwhile=cancelled_meanwhile)

    @rule(number=which, sends=often, unsure=maybe, in_two=maybe, cancelled_meanwhile=seldom)
    def a_worker_goes_on(self, number: int, sends: bool, unsure: bool, in_two: bool, cancelled_meanwhile: bool) -> None:
        """Its plan's next act: begin, write, report, end. It may have slept since the one before for as long as it liked."""
        if worker := self.worker(number):
            self.goes_on(worker, sends, unsure, in_two, cancelled_meanwhile)

    def goes_on(
        self, worker: Worker, sends: bool = True, unsure: bool = False, in_two: bool = False, cancelled_meanwhile: bool = False
    ) -> None:
        if worker.operation is not None and not worker.wrote and not sends:
            self.report(worker)
        elif worker.operation is not None and not worker.wrote:
            self.outside.write(worker, worker.run.business_ref, 12500, "EUR")
            self.tally["bytes"] += 1
        elif worker.operation is not None:
            self.report(worker, unsure)
        elif worker.reports:
            self.ends(worker)
        elif worker.refused > PATIENCE:
            worker.gone = True
            self.ask("stopped", lambda: leases.stopped(WORKER, worker.run.pk, worker.token))
        else:
            self.begins_to_send(worker, in_two, cancelled_meanwhile)

    def begins_to_send(self, worker: Worker, in_two: bool, cancelled_meanwhile: bool) -> None:
        wanted = makers.intent(worker.run.business_ref, provider=FAKE)
        cancel = lambda: makers.cancel(worker.run) if cancelled_meanwhile else None  # noqa: E731
        declare = lambda begin: intents.declare(WORKER, worker.run.pk, worker.token, makers.nonce(), wanted, begin=begin)  # noqa: E731
        if in_two:
            self.ask("declare", lambda: declare(False))
        with self.meanwhile.during_a_fence(cancel) as met:
            permission = self.ask("begin", lambda: declare(True))
        worker.refused += permission is None
        self.tally["cancel in the middle of a fence"] += bool(met and met[0])
        if permission is not None and permission.kind == "sending":
            worker.operation, worker.attempt = permission.effect.pk, permission.attempt.number
            self.tally["second attempt"] += worker.attempt > 1
        elif permission is not None:
            self.ends(worker)

    def ends(self, worker: Worker) -> None:
        """What it does when nothing more is to be sent: finish, or wait until it is known."""
        worker.reports.clear()
        self.ask("step done", lambda: steps.finish(WORKER, worker.run.pk, worker.token, "order", "done"))
        if self.ask("finish", lambda: lifecycle.finish(WORKER, worker.run.pk, worker.token, "completed")) is None:
            self.ask("suspend", lambda: waiting.suspend(WORKER, worker.run.pk, worker.token, "evidence"))

    @rule(number=which, what=st.sampled_from(["beats", "repeats", "is killed", "is reaped", "stops", "asks", "has a child", "fails"]))
    def a_worker_does_otherwise(self, number: int, what: str) -> None:
        worker = self.worker(number)
        if worker is None:
            return
        self.tally[what] += 1
        run, token = worker.run.pk, worker.token
        match what:
            case "repeats" if worker.reports:  # an answer was lost, or a spool is read again
                self.tell(*worker.reports[number % len(worker.reports)])
            case "beats":
                self.ask("heartbeat", lambda: leases.heartbeat(WORKER, run, token))
            case "fails" if worker.operation is None:
                self.ask("fail", lambda: lifecycle.finish(WORKER, run, token, "failed"))
            case "stops":
                worker.gone = True
                self.ask("stopped", lambda: leases.stopped(WORKER, run, token))
            case "is killed" | "is reaped":
                self.dies(worker, reaped=what == "is reaped")
            case "asks" if worker.operation is None:
                self.ask("approval", lambda: approvals.request(WORKER, run, token, Question("confirm", "Send it?")))
            case "has a child" if Run.objects.count() < RUNS_MAX:
                self.ask("child", lambda: makers.child_of(worker.run, token, business_ref=REFERENCES[1]))

    def dies(self, worker: Worker, reaped: bool) -> None:
        worker.gone = worker.killed = True
        if reaped:
            leases.gone(WORKER, worker.holder, "signal 9")

    def report(self, worker: Worker, unsure: bool = False) -> None:
        assert worker.operation is not None
        verdict, number = self.outside.answers.get((worker.operation, worker.attempt), ("unknown", ""))
        if not worker.wrote or unsure:
            verdict, number = ("not_sent" if not worker.wrote else "unknown"), ""
        told = (worker.operation, worker.attempt, verdict, number)
        if verdict != "not_sent":
            worker.reports.append(told)
        worker.let_go()
        self.tell(*told)

    def tell(self, operation: uuid.UUID, attempt: int, verdict: str, external_id: str) -> None:
        money = self.outside.money_of(external_id) if verdict == "landed" else {}
        used, _ = outcomes.report(WORKER, operation, attempt, verdict, external_id, **money)
        self.tally[f"report {verdict}: {used}"] += 1

    # The outside -----------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.outside.under_way)
    @rule(number=which, how=st.sampled_from(["executed", "executed", "differently", "refused", "lost"]))
    def a_packet_arrives(self, number: int, how: str) -> None:
        self.outside.arrive(self.outside.under_way[number % len(self.outside.under_way)], how)
        self.tally[f"packet {how}"] += 1

    @precondition(lambda self: self.outside.objects)
    @rule(number=which, times=st.integers(1, 3))
    def a_webhook_comes(self, number: int, times: int) -> None:
        packet, external_id = self.outside.objects[number % len(self.outside.objects)]
        self.webhook(packet, external_id, times)

    def webhook(self, packet: Packet, external_id: str, times: int) -> None:
        self.events += 1
        told = {"external_id": external_id, "amount": packet.amount, "currency": packet.currency}
        raw = webhook("landed", packet.operation, f"evt-{self.events}", packet.reference, **told)
        for _ in range(times):
            webhooks.receive(FAKE, {"signature": "good"}, raw)
        self.tally["webhook"] += times

    @rule(
        seconds=st.sampled_from([65.0, 20.0, 130.0, 4000.0]),
        how=st.sampled_from(["executed", "lost"]),
        down=st.sampled_from([False, False, True]),
    )
    def time_passes(self, seconds: float, how: str, down: bool) -> None:
        """No packet lives as long as that, which is what the provider promises; a sleeping worker may. Then everything that beats beats."""
        self.packets_land(how)
        self.outside.down = down
        makers.let_time_pass(seconds)
        self.beats()

    def about_to_write(self) -> list[Worker]:
        return [worker for worker in self.outside.workers if worker.is_about_to_write]

    @precondition(lambda self: self.about_to_write())
    @rule(number=which, dies=often, again=often, acts=some, cancelled_meanwhile=seldom)
    def what_never_left_is_looked_for(self, number: int, dies: bool, again: bool, acts: int, cancelled_meanwhile: bool) -> None:
        """A worker dies before its first byte, which its supervisor sees, or it only sleeps. Looks find nothing, which proves something of
        the dead one alone; then policy or a person says what now. Chance would have to find nine acts in this order.
        """
        standing = self.about_to_write()
        if dies:
            self.dies(standing[number % len(standing)], reaped=True)
        self.packets_land("executed")
        self.outside.down = False
        for _ in range(LOOKS_TO_PROVE):
            makers.let_time_pass(LONGER_THAN_ANY_PACKET_S)
            self.beats()
        for case in makers.open_cases(kind=cs.ABSENT_ASK):
            self.settle(case, again)
        self.claims(acts, cancelled_meanwhile)

    @precondition(lambda self: self.outside.under_way)
    @rule(number=which, second=st.sampled_from(["agrees", "disagrees", ""]))
    def something_else_comes_of_it(self, number: int, second: str) -> None:
        """The provider carries it out for another amount and says so, which no machine settles; or people give it up."""
        packet = self.outside.under_way[number % len(self.outside.under_way)]
        self.outside.arrive(packet, "differently")
        self.tally["packet differently"] += 1
        self.webhook(*self.outside.objects[-1], times=1)
        self.beats()
        for case in makers.open_cases(kind=cs.CONFLICTING, effect=packet.operation) if second else ():
            self.give_up(case, second)

    @rule()
    def beats(self) -> None:
        webhooks.process_due()
        makers.sweep()
        assert not self.failed_sweeps, self.failed_sweeps[0]

    # People ----------------------------------------------------------------------------------------------------------

    @precondition(lambda self: self.outside.workers and Run.objects.filter(asked_at=None).count() > 1)
    @rule(number=which, terminated=seldom)
    def a_run_is_stopped(self, number: int, terminated: bool) -> None:
        """Any run, also one that has been stopped before; one is always left to go on."""
        runs = list(Run.objects.order_by("created_at"))
        run = runs[number % len(runs)]
        if terminated:
            digest = preview.preview(run)["plan_digest"]
            self.ask("terminate", lambda: makers.cancel(run, actor=ADMIN, mode="terminate", reason="r", plan_digest=digest))
        else:
            self.tally[f"cancel {makers.cancel(run).kind}"] += 1

    @precondition(lambda self: Approval.objects.filter(state="requested").exists())
    @rule(decision=st.sampled_from(["approved", "rejected"]))
    def an_approval_is_decided(self, decision: str) -> None:
        for asked in Approval.objects.filter(state="requested"):
            self.ask(decision, lambda asked=asked: approvals.decide(APPROVER, asked.pk, decision, "because"))

    @precondition(lambda self: any(cs.VERDICTS[case.kind] for case in makers.open_cases()))
    @rule(number=which, again=maybe)
    def a_case_is_settled(self, number: int, again: bool) -> None:
        waits = [case for case in makers.open_cases() if cs.VERDICTS[case.kind]]
        self.settle(waits[number % len(waits)], again)

    def settle(self, case: Case, again: bool = False) -> None:
        """A person who looks for themselves, and says only what they know."""
        if case.state == cs.AWAITING_SECOND:
            self.ask("second disagrees", lambda: findings.confirm(OTHER, case.pk, False))
        finding = people.finding(self.outside, case, again)
        if finding is not None and self.ask("case claimed", lambda: cases.claim(SUPPORT, case.pk, take_over=True)):
            settled = self.ask("settle", lambda: makers.settle(case, **finding))
            self.tally[f"case {case.kind} {finding['verdict']}: {settled.outcome if settled else 'refused'}"] += 1

    @precondition(lambda self: self.doubts())
    @rule(number=which, second=st.sampled_from(["agrees", "agrees", "disagrees", "does not come"]))
    def a_case_is_given_up(self, number: int, second: str) -> None:
        doubts = self.doubts()
        self.give_up(doubts[number % len(doubts)], second)

    def doubts(self) -> list[Case]:
        """The open cases that ask whether something happened, and have no finding yet."""
        return [case for case in makers.open_cases(kind__in=people.IN_DOUBT) if case.state != cs.AWAITING_SECOND]

    def give_up(self, case: Case, second: str) -> None:
        """Somebody says that it cannot be known, and a second person has a word on that. Facts may come nevertheless."""
        if self.ask("case claimed", lambda: cases.claim(SUPPORT, case.pk, take_over=True)):
            self.ask("given up", lambda: makers.settle(case, cs.CANNOT_BE_KNOWN))
        if second != "does not come":
            self.ask(f"second {second}", lambda: findings.confirm(OTHER, case.pk, second == "agrees"))

    # The end ---------------------------------------------------------------------------------------------------------

    def teardown(self) -> None:
        logging.getLogger("runs.sweeps").removeHandler(self.listening)
        if sys.exception() is None:
            self.heal()
            self.check()

    def heal(self) -> None:
        """The provider is back, packets have landed, every process has said what it knows or is known to be gone, people have settled."""
        self.outside.down = False
        self.packets_land("executed")
        for worker in self.outside.workers:
            if worker.killed:
                leases.gone(WORKER, worker.holder, "signal 9")
            elif not worker.gone:
                if worker.operation is not None:
                    self.report(worker)
                leases.stopped(WORKER, worker.run.pk, worker.token)
                worker.gone = True
        for packet, external_id in self.outside.objects:
            self.webhook(packet, external_id, times=2)
        webhooks.process_due()
        for _ in range(ROUNDS_MAX):
            makers.let_time_pass(LONGER_THAN_ANY_PACKET_S)
            makers.sweep()
            for case in makers.open_cases():
                if cs.VERDICTS[case.kind]:
                    self.settle(case)
            if not self.open_effects() and not makers.open_cases():
                break
        makers.sweep()

    def open_effects(self) -> list[Effect]:
        """What is neither settled nor given up by two people."""
        return list(Effect.objects.filter(state__in=es.OPEN, unknowable=False))

    def check(self) -> None:
        found = checker.violations(checker.export(received=self.outside.received))
        for reference, count in Counter(packet.reference for packet, _ in self.outside.objects).items():
            found += [f"{reference} was executed {count} times"] if count > 1 else []
        found += [f"L1 {effect.ref} is still {effect.state} after healing" for effect in self.open_effects()]
        found += [f"L2 {run.ref} still has a lease, though everybody is gone" for run in Run.objects.filter(lease_token__isnull=False)]
        found += [f"{run.ref} is still {run.state}, though everybody is gone" for run in Run.objects.filter(state__in=rs.STOPPING)]
        assert not found + self.failed_sweeps, "\n".join(found + self.failed_sweeps)
        makers.assert_counters()
        for effect in Effect.objects.all():
            self.tally[f"ended {effect.state}"] += 1
        for run in Run.objects.all():
            self.tally[f"run {run.status}"] += 1


class _Listening(logging.Handler):
    """A sweep logs what it could not handle and goes on; here that is a failure."""

    def __init__(self, failed: list[str]) -> None:
        super().__init__(logging.ERROR)
        self.failed = failed

    def emit(self, record: logging.LogRecord) -> None:
        self.failed.append(logging.Formatter().format(record))
