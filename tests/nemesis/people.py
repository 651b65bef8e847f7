"""The people of the nemesis: they approve, and they settle cases by looking for themselves, saying only what they can know."""

from __future__ import annotations

import contextlib
import re
from typing import Any

import httpx
import psutil

from ledger.models import Attempt
from reconciliation import states as cs
from tests.nemesis.stage import PROMISES, Stage

Json = dict[str, Any]
NAMES = ("support", "support2", "approver", "admin")
SEEN = {"seen_where": "provider_dashboard"}


class People:
    """Each logged in once, by the log-in page itself."""

    def __init__(self, stage: Stage) -> None:
        self.stage = stage
        self.clients = {name: stage.world.log_in(name) for name in NAMES}

    def close(self) -> None:
        for client in self.clients.values():
            client.close()

    def ask(self, who: str, method: str, path: str, said: Json | None = None) -> httpx.Response:
        return self.clients[who].request(method, path, json=said, timeout=15)

    def listed(self, who: str, path: str, **query: str) -> list[Json]:
        answer = self.clients[who].get(path, params={"limit": "100", **query}, timeout=15)
        return list(answer.json()["results"]) if answer.status_code == 200 else []

    def _did(self, what: str, answer: httpx.Response) -> bool:
        self.stage.count(f"{what}: {answer.status_code}")
        return answer.status_code in (200, 201)

    def decide_approvals(self, choice: int) -> bool:
        """Most are approved."""
        done = []
        for number, asked in enumerate(self.listed("approver", "/api/v1/approvals", state="requested")):
            decision = "rejected" if (choice + number) % 5 == 0 else "approved"
            path = f"/api/v1/approvals/{asked['id']}/decision"
            said = {"decision": decision, "comment": "because", "digest": asked["digest"]}
            done.append(self._did("decide an approval", self.ask("approver", "POST", path, said)))
        return any(done)

    def decide_undos(self, choice: int) -> bool:
        done = []
        for number, asked in enumerate(self.listed("approver", "/api/v1/compensations", state="requested")):
            decision = "rejected" if (choice + number) % 6 == 0 else "approved"
            said = {"decision": decision, "version": asked["version"], "comment": "because"}
            path = f"/api/v1/compensations/{asked['ref']}/decision"
            done.append(self._did("decide an undo", self.ask("approver", "POST", path, said)))
        return any(done)

    def settle_cases(self, choice: int) -> bool:
        """Every open case whose truth can be known now."""
        done = []
        for number, case in enumerate(self.listed("support", "/api/v1/cases")):
            with contextlib.suppress(httpx.HTTPError):
                done.append(self._settle(case, choice + number))
        return any(done)

    def _settle(self, case: Json, choice: int) -> bool:
        if case["state"] == cs.AWAITING_SECOND:
            return self._did("confirm", self.ask("support2", "POST", f"/api/v1/cases/{case['ref']}/confirmation", {"agree": True}))
        found = self.finding(case, choice)
        if found is None or not self._did("claim", self.ask("support", "POST", f"/api/v1/cases/{case['ref']}/claim", {"take_over": True})):
            return False
        answer = self.ask("support", "POST", f"/api/v1/cases/{case['ref']}/settlement", found)
        self.stage.count(f"case {case['kind']}, {found['verdict']}: {answer.json().get('outcome') or answer.json().get('code')}")
        return answer.status_code == 200

    def finding(self, case: Json, choice: int) -> Json | None:
        """What a person who looks at the supplier's own log, and at the machines of the workers, can say; None: nothing yet."""
        kind = case["kind"]
        if kind == cs.ABSENT_ASK:
            return {"verdict": cs.SEND_AGAIN if choice % 2 else cs.LEAVE}
        if kind == cs.LEFT_BEHIND:
            return {"verdict": cs.DONE_BY_HAND, "evidence": self._evidence(case, notes="Looked at it and tidied up.")}
        if kind not in (cs.NOT_FOUND_SENDER_ALIVE, cs.CEILING, cs.CONFLICTING, cs.NO_LOOKUP):
            return None
        if done := self._carried_out(case):
            return {"verdict": cs.HAPPENED, "evidence": self._evidence(case, external_id=done)}
        if self._may_still_happen(case):
            return None
        gone = "Its process is gone, and nothing has been under way for longer than the supplier keeps it."
        return {"verdict": cs.DID_NOT_HAPPEN, "evidence": self._evidence(case), "sender_gone": gone}

    def _evidence(self, case: Json, **more: str) -> Json:
        return SEEN | {"seen_at": case["opened_at"]} | more

    def _carried_out(self, case: Json) -> str:
        """The supplier's number of what this operation did, or nothing."""
        kinds = {"execution", "cancellation"}
        log = self.stage.world.supplier_log()
        ours = [line for line in log if line["kind"] in kinds and line["idempotency_key"] == case["operation_id"]]
        if not ours:
            return ""
        if ours[0]["kind"] == "execution":
            return str(ours[0]["order_id"])
        order = self.stage.world.supplier.get(f"/orders/{ours[0]['order_id']}").json()
        return str(order.get("cancellation_id") or "")

    def _may_still_happen(self, case: Json) -> bool:
        """A worker process that may hold it is alive, or a packet of it may be under way."""
        from django.utils import timezone

        for attempt in Attempt.objects.filter(effect=case["operation_id"]):
            pid = int(re.split(r"[:-]", attempt.holder)[-2 if ":" in attempt.holder else -1])
            if pid not in self.stage.dead and psutil.pid_exists(pid):
                return True
            if (timezone.now() - attempt.sent_at).total_seconds() < 3 * float(str(PROMISES["max_in_flight_s"])):
                return True
        return False
