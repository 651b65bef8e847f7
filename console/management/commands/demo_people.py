"""`manage.py demo_people`: the people of the demo and the token of its agents, kept in `.countermand/demo.json`."""

import contextlib
import json
import secrets
from datetime import timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

from django.conf import settings
from django.contrib.auth.models import Group, User
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from console import machines
from console.auth import TokenRefused, credential_for, person_actor
from console.embedded.demo import write_private
from console.models import Credential
from examples.purchase_orders.agent import APPROVAL_OVER
from ledger import policies, rulebook
from ledger.models import ActionPolicy
from ledger.money import exponent
from ledger.rulebook import NewTerms
from runs import actors
from runs.actors import MACHINE_SCOPES

PEOPLE = {
    "support": ("Sam", "Support", "Support"),
    "support2": ("Pia", "Support", "Support"),
    "approver": ("Ada", "Approver", "Approver"),
    "approver2": ("Ben", "Approver", "Approver"),
    "auditor": ("Ode", "Auditor", "Auditor"),
    "admin": ("Ash", "Admin", "Admin"),
}
MACHINE = "demo-agents"
# Currency → what may be undone at most, and from where on two must approve; major units.
UNDO_LIMITS = {"EUR": (10_000, 1_000), "GBP": (10_000, 1_000), "USD": (10_000, 1_000), "JPY": (1_000_000, 100_000), "KWD": (3_000, 300)}
RENEW_WITHIN = timedelta(days=7)


class Command(BaseCommand):
    help = "Make the demo's people, its agents' token, its limit for orders and rules of undoing. Passwords and a live token stay."

    def handle(self, *args: Any, **options: Any) -> None:
        if not settings.PRACTICE:
            raise CommandError("Demo people are for the demo: this is a real deployment.")
        path = Path(settings.COUNTERMAND_HOME) / "demo.json"
        known = json.loads(path.read_text("utf-8")) if path.exists() else {}
        known["people"] = {name: _person(name, known) for name in PEOPLE}
        known["agent_token"] = _token(known.get("agent_token"))
        _limit_orders()
        _allow_undoing()
        write_private(path, json.dumps(known, indent=2))
        self.stdout.write(f"People and token are in {path}.")


def _person(name: str, known: dict[str, Any]) -> dict[str, str]:
    """Makes or mends one person; their password is the one in demo.json, or a new one."""
    password = known.get("people", {}).get(name, {}).get("password") or secrets.token_urlsafe(9)
    first, last, group = PEOPLE[name]
    user, _ = User.objects.get_or_create(username=name, defaults={"first_name": first, "last_name": last})
    if not user.check_password(password):
        user.set_password(password)
        user.save()
    user.groups.set([Group.objects.get(name=group)])
    return {"username": name, "password": password}


def _limit_orders() -> None:
    """The administrator puts orders over 5,000.00 of their currency under approval, once."""
    if not ActionPolicy.objects.filter(provider="supplier", action="create_order").exists():
        actor = person_actor(User.objects.get(username="admin"))
        policies.require_approval(
            actor, "supplier", "create_order", "over", Decimal(APPROVAL_OVER), "Large orders are confirmed by a person."
        )


def _allow_undoing() -> None:
    """The administrator lets orders be undone for 30 days, in each currency of the practice ground, once."""
    actor = person_actor(User.objects.get(username="admin"))
    for currency, (most, second) in UNDO_LIMITS.items():
        unit = 10 ** exponent(currency)
        new = NewTerms(max_amount=most * unit, days_after_landing=30, approvals=1, second_from=second * unit)
        if rulebook.current("supplier", "create_order", currency) is None:
            rulebook.change(actor, "supplier", "create_order", currency, new, "Orders can be undone for a month; large ones by two.")


def _token(known: str | None) -> str:
    """The token of demo.json while it is good for some days yet; otherwise a new one, and the old ones revoked."""
    now = timezone.now()
    with contextlib.suppress(TokenRefused):  # expired, or the data folder was removed
        if known and credential_for(known).expires_at > now + RENEW_WITHIN:
            return known
    demo = actors.system("demo")
    for old in Credential.objects.filter(name=MACHINE, revoked_at=None):
        machines.revoke(demo, old)
    _, token = machines.issue(demo, MACHINE, MACHINE_SCOPES, ["*"])
    return token
