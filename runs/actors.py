"""Who acts. An actor is a plain value that the doors make from a session, a token or the system, and that domain functions judge.

A person's scopes come from their groups, a machine's from its credential; the default is deny.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from runs.errors import NotAllowed, ReauthenticationRequired

RUN_WORK = "run:work"
RUN_READ = "run:read"
RUN_CANCEL = "run:cancel"
RUN_TERMINATE = "run:terminate"
CASE_READ = "case:read"
CASE_SETTLE = "case:settle"
APPROVAL_DECIDE = "approval:decide"
COMPENSATION_REQUEST = "compensation:request"
COMPENSATION_APPROVE = "compensation:approve"
POLICY_CHANGE = "policy:change"
RULE_CHANGE = "rule:change"
OCCURRENCE_OPEN = "occurrence:open"
NOTIFICATION_CHANGE = "notification:change"
PEOPLE_MANAGE = "people:manage"
CREDENTIAL_MANAGE = "credential:manage"
AUDIT_READ = "audit:read"
DEMO_START = "demo:start"

MACHINE_SCOPES = frozenset({RUN_WORK, RUN_READ, RUN_CANCEL, CASE_READ})
ANY_AGENT = "*"


@dataclass(frozen=True)
class Actor:
    """`type` is person, machine or system; `id` is stable, `name` as it was; a machine works only for its `agents` (`*` for any).

    `stale`: a person whose session is older than what may be believed for acts that cannot be taken back (set by doors with a session).
    """

    type: str
    id: str
    name: str
    channel: str = ""
    scopes: frozenset[str] = field(default_factory=frozenset)
    agents: frozenset[str] = field(default_factory=frozenset)
    stale: bool = False

    @property
    def is_person(self) -> bool:
        return self.type == "person"

    def may(self, scope: str, agent: str | None = None) -> bool:
        """Whether this actor has the scope and, for a machine, may act for `agent`."""
        if self.type == "system":
            return True
        if scope not in self.scopes:
            return False
        if self.type == "machine" and scope not in MACHINE_SCOPES:
            return False
        return agent is None or self.type != "machine" or ANY_AGENT in self.agents or agent in self.agents

    def require(self, scope: str, agent: str | None = None, what: str = "do this") -> None:
        """Raise `NotAllowed` unless `may`."""
        if not self.may(scope, agent):
            raise NotAllowed(f"{self.name} may not {what}: it needs {scope}.", needs=scope)

    def require_recent(self, what: str) -> None:
        """Raise `ReauthenticationRequired` unless this person proved lately who they are: for approving, terminating, settling money.

        Called after `require` and after the fields are known to be good, so that nobody proves it for nothing.
        """
        if self.stale:
            raise ReauthenticationRequired(
                f"Prove again that it is you to {what}: sign in once more at /accounts/reauthenticate/, then send it again.",
                reauthenticate="/accounts/reauthenticate/",
            )

    def through(self, channel: str) -> Actor:
        """The same actor, acting through another channel (`web`, `api`, `worker`, `bulk`)."""
        return replace(self, channel=channel)


def system(name: str) -> Actor:
    """The control plane itself, in one of its offices (`deadline`, `reconciler`, `sweep`)."""
    return Actor(type="system", id=name, name=name, channel="system")
