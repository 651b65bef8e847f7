"""localstripe, Stripe's emulator, in a process of its own. It knows nothing of idempotency keys and refunds more than was paid:
only our own guards can hold."""

import sys
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from console.embedded.processes import Processes, Spec
from tests import platform

KEY = platform.STRIPE["api_key"]
GOOD_CARD, DECLINED_CARD = "pm_card_visa", "pm_card_chargeCustomerFail"


class Localstripe:
    """What really is at Stripe: `payments()` and `refunds()` as it gives them, oldest first."""

    url = platform.STRIPE_URL

    def __init__(self) -> None:
        self.http = httpx.Client(base_url=self.url, headers={"Authorization": f"Bearer {KEY}"}, timeout=10, trust_env=False)

    def payments(self, reference: str | None = None) -> list[dict[str, Any]]:
        return self._all("/v1/payment_intents", reference)

    def refunds(self, reference: str | None = None) -> list[dict[str, Any]]:
        return self._all("/v1/refunds", reference)

    def _all(self, path: str, reference: str | None) -> list[dict[str, Any]]:
        answer = self.http.get(path, params={"limit": 1000})
        answer.raise_for_status()
        things = answer.json()["data"]
        return [thing for thing in things if reference in (None, thing["metadata"].get("countermand_reference"))]

    def executions(self) -> list[dict[str, Any]]:
        """The payments and refunds of ours that were carried out, as the checker wants a provider's log."""
        done = [thing["metadata"] for thing in (*self.payments(), *self.refunds()) if thing["status"] == "succeeded"]
        ours = [told["countermand_operation"] for told in done if "countermand_operation" in told]
        return [{"operation_id": operation, "attempt": None, "executed": True} for operation in ours]

    def send_events(self, url: str, secret: str) -> None:
        """From now on (and until the process ends) it tells that address what happens, a second later."""
        self.http.post("/_config/webhooks/ours", data={"url": url, "secret": secret}).raise_for_status()

    def pay(self, reference: str, operation_id: str = "", amount: int = 12500, confirm: str = "true") -> Any:
        """A payment as a worker of ours makes it. Returns the answer."""
        form = {
            "amount": amount, "currency": "eur", "payment_method": GOOD_CARD, "confirm": confirm,
            "metadata[countermand_reference]": reference, "metadata[countermand_operation]": operation_id,
        }  # fmt: skip
        return self.http.post("/v1/payment_intents", data=form)

    def refund_by_hand(self, payment: str, amount: int | None = None) -> dict[str, Any]:
        """A refund as somebody makes it in the dashboard: with nothing of ours in it."""
        answer = self.http.post("/v1/refunds", data={"payment_intent": payment} | ({"amount": amount} if amount else {}))
        answer.raise_for_status()
        return dict(answer.json())

    def forget(self) -> None:
        self.http.delete("/_config/data").raise_for_status()


@pytest.fixture(scope="session")
def localstripe_process() -> Iterator[Localstripe]:
    with Processes(platform.SCRATCH / "logs") as running:
        options = ("-m", "tests.stripe_emulator", "--port", str(platform.STRIPE_PORT))
        running.start(Spec("localstripe", (sys.executable, *options), ready_url=f"{platform.STRIPE_URL}/js.stripe.com/v3/"))
        running.wait_until_ready("localstripe")
        yield Localstripe()


@pytest.fixture
def localstripe(localstripe_process: Localstripe) -> Iterator[Localstripe]:
    """localstripe with nothing in it."""
    localstripe_process.forget()
    yield localstripe_process
