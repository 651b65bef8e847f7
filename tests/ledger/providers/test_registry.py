"""Loading adapters from configuration: what may be set, and what is said about what may not."""

import subprocess
import sys
from typing import Any

import pytest

from ledger.providers import load
from ledger.providers.base import DEFAULT_LOOK_SCHEDULE_S, Capability, ProviderConfigError

URL = "http://127.0.0.1:1"


def test_the_suppliers_record() -> None:
    record = load({"kind": "supplier", "url": URL}).capability
    assert (record.lookup, record.max_in_flight_s, record.after_absent, record.look_spacing_s) == (
        "strong",
        10,
        "resend",
        10,
    )
    assert record.look_schedule_s[:4] == (5, 15, 45, 120)
    assert record.compensable == {"create_order": "cancel_order"}
    assert record.lookup_url == f"{URL}/orders?reference={{reference}}"


def test_a_record_may_be_changed_by_configuration() -> None:
    changes = {
        "look_schedule_s": [0.1, 0.5],
        "max_in_flight_s": 0,
        "look_spacing_s": 0.2,
        "cleanable": ["create_order"],
    }
    record = load({"kind": "supplier", "url": URL, "name": "acme", "capability": changes}).capability
    assert (record.look_schedule_s, record.max_in_flight_s, record.look_spacing_s) == ((0.1, 0.5), 0, 0.2)
    assert record.cleanable == {"create_order"}


def test_defaults_promise_little() -> None:
    record = Capability(lookup="none")
    assert record.look_schedule_s == DEFAULT_LOOK_SCHEDULE_S
    assert (record.after_absent, record.idempotency_window_s, record.reference_unique) == ("ask", None, False)
    assert record.look_spacing_s == 30


@pytest.mark.parametrize(
    "config",
    [
        {},
        {"kind": "nobody"},
        {"kind": ["supplier"]},
        {"kind": "supplier"},
        {"kind": "supplier", "url": "ftp://x"},
        {"kind": "supplier", "url": URL, "retries": 3},
        {"kind": "supplier", "url": URL, "timeout_s": "soon"},
        {"kind": "supplier", "url": URL, "capability": {"retries": 3}},
        {"kind": "supplier", "url": URL, "capability": {"lookup": "perhaps"}},
        {"kind": "supplier", "url": URL, "capability": {"max_in_flight_s": -1}},
        {"kind": "supplier", "url": URL, "capability": {"max_in_flight_s": True}},
        {"kind": "supplier", "url": URL, "capability": {"max_in_flight_s": None}},
        {"kind": "supplier", "url": URL, "capability": {"look_schedule_s": [5, 5]}},
        {"kind": "supplier", "url": URL, "capability": {"look_schedule_s": []}},
        {"kind": "supplier", "url": URL, "capability": {"cleanable": "create_order"}},
        {"kind": "supplier", "url": URL, "capability": {"rate_per_s": 0}},
    ],
)
def test_a_wrong_setting_is_named(config: dict[str, Any]) -> None:
    with pytest.raises(ProviderConfigError):
        load(config)


def test_adapters_need_no_django() -> None:
    check = "import sys, ledger.providers; print([m for m in sys.modules if m.split('.')[0] == 'django'])"
    said = subprocess.run([sys.executable, "-c", check], capture_output=True, text=True, check=True)
    assert said.stdout.strip() == "[]"
