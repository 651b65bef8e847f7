"""Random histories of the real domain functions, held against the provider's own log; and the same with one rule removed, which must
be found out. COUNTERMAND_TWIN=long tries more, and other histories each time (make faults)."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from tests.fakes import FakeProvider
from tests.twin import broken
from tests.twin.interleaving import Meanwhile
from tests.twin.machine import OPENINGS, Twin

pytestmark = pytest.mark.timeout(1800)  # on a machine that does much else; make test takes a fraction of it

COMMON = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck), report_multiple_bugs=False)
QUICK = settings(COMMON, derandomize=True, max_examples=12, stateful_step_count=30)
LONG = settings(COMMON, max_examples=150, stateful_step_count=60, print_blob=True)
BROKEN = settings(COMMON, derandomize=True, max_examples=60, stateful_step_count=12, phases=[Phase.generate])
REACHED = {
    "begin", "begin: cancelled", "begin: lease_lost", "begin: in_doubt", "bytes", "cancel accepted", "cancel in the middle of a fence",
    "is reaped", "webhook", "case claimed", "ended landed", "ended absent",
}  # fmt: skip
SELDOM = {"second attempt", "case absent_ask send_again: settled", "ended conflicted", "second agrees"}
"""Reached in the long run, and in the histories whose beginning is led there."""


@pytest.fixture
def twin(database: None, fake: FakeProvider) -> Iterator[type[Twin]]:
    Twin.provider, Twin.meanwhile, Twin.tally = fake, Meanwhile(), Counter()
    yield Twin
    Twin.meanwhile.close()


def test_whatever_anybody_does_the_history_breaks_no_invariant(twin: type[Twin]) -> None:
    long = os.environ.get("COUNTERMAND_TWIN") == "long"
    run_state_machine_as_test(twin, settings=LONG if long else QUICK)
    print("\n".join(f"{count:6} {what}" for what, count in sorted(twin.tally.items())))
    never = {what for what in REACHED | (SELDOM if long else set()) if not twin.tally[what]}
    assert not never, f"never tried: {never}; tried: {twin.tally}"


def test_what_chance_seldom_comes_to(twin: type[Twin]) -> None:
    for opening, resend in product(OPENINGS, (True, False)):
        history = twin()
        history.begins(resend, opening, acts=4, cancelled_meanwhile=False)
        history.teardown()
    assert all(twin.tally[what] for what in SELDOM), twin.tally


@pytest.mark.parametrize("sabotage", broken.ALL, ids=lambda sabotage: sabotage.__name__)
def test_a_removed_rule_is_found_out(twin: type[Twin], monkeypatch: pytest.MonkeyPatch, sabotage: broken.Sabotage) -> None:
    found = sabotage(monkeypatch)
    with pytest.raises(AssertionError, match=found):
        run_state_machine_as_test(twin, settings=BROKEN)
