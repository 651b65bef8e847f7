"""Absence as a truth table: pure functions of looks, senders and clocks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product

import pytest

from ledger.providers.base import Capability, Found, Look, Sought
from reconciliation import verdicts
from reconciliation.verdicts import EmptyLook, Sender

BEGAN = datetime(2026, 1, 1, tzinfo=UTC)
STRONG = Capability(lookup="strong", max_in_flight_s=10, look_spacing_s=30)
LAGGING = Capability(lookup="eventual", lookup_lag_s=100, max_in_flight_s=10, look_spacing_s=30)


def at(seconds):
    return BEGAN + timedelta(seconds=seconds)


def empty(*seconds, steady=True):
    return [EmptyLook(at(one), steady) for one in seconds]


STOPPED = [Sender(at(0))]


@pytest.mark.parametrize(
    ("senders", "looks", "record", "absent"),
    [
        (STOPPED, empty(10, 40), STRONG, True),
        (STOPPED, empty(40, 10), STRONG, True),
        (STOPPED, empty(9.9, 40), STRONG, False),  # the first began while something might still arrive
        (STOPPED, empty(10, 39.9), STRONG, False),  # too close to each other
        (STOPPED, empty(10, 39.9, 40), STRONG, True),
        (STOPPED, empty(10), STRONG, False),
        (STOPPED, [], STRONG, False),
        (STOPPED, [*empty(10, steady=False), *empty(40)], STRONG, False),  # it changed during the look
        (STOPPED, [*empty(10), *empty(40, steady=False), *empty(70)], STRONG, True),
        (STOPPED, empty(10, 40), LAGGING, False),
        (STOPPED, empty(109.9, 140), LAGGING, False),
        (STOPPED, empty(110, 140), LAGGING, True),
        ([Sender(None)], empty(10, 40, 1000, 10**6), STRONG, False),  # a frozen sender may thaw
        ([Sender(at(0)), Sender(None)], empty(10, 40, 10**6), STRONG, False),
        ([Sender(at(0)), Sender(at(100))], empty(10, 40), STRONG, False),
        ([Sender(at(0)), Sender(at(100))], empty(110, 140), STRONG, True),
        ([Sender(None, not_sent=True), Sender(at(0))], empty(10, 40), STRONG, True),
        ([Sender(at(0), not_sent=True)], [], STRONG, True),
        ([Sender(at(0), not_sent=True)] * 2, [], STRONG, True),
        ([], empty(10, 40), STRONG, False),
    ],
)
def test_absence(senders, looks, record, absent):
    assert verdicts.is_absent(senders, looks, record) is absent


@pytest.mark.parametrize("lookup", ["none", "by_id"])
def test_no_absence_from_a_lookup_that_cannot_tell(lookup):
    record = Capability(lookup=lookup, max_in_flight_s=0, look_spacing_s=0)
    assert not verdicts.is_absent(STOPPED, empty(*range(1000)), record)
    assert verdicts.useful_look_at(STOPPED, [], record) is None


def test_never_absent_while_a_sender_may_act_whatever_is_seen():
    for alive, times, steady in product(range(3), ((), (100,), (100, 200), (10**8, 10**9)), (True, False)):
        senders = [Sender(at(0))] * (2 - alive) + [Sender(None)] * alive
        if alive:
            assert not verdicts.is_absent(senders, empty(*times, steady=steady), STRONG)


def test_when_a_look_is_useful():
    assert verdicts.useful_look_at([Sender(None)], [], STRONG) is None
    assert verdicts.useful_look_at(STOPPED, [], STRONG) == at(10)
    assert verdicts.useful_look_at(STOPPED, empty(5), STRONG) == at(10)
    assert verdicts.useful_look_at(STOPPED, empty(12), STRONG) == at(42)


SOUGHT = Sought("PO-1", "op", None, "create_order", 1, "EUR", BEGAN)


def one(state="landed", external_id="S-1", reference="PO-1"):
    return Found(external_id, state, 1, "EUR", reference, None)


@pytest.mark.parametrize(
    ("look", "verdict"),
    [
        (Look("unreachable"), "unreachable"),
        (Look("refused_access", http_status=403), "unreachable"),
        (Look("empty"), "empty"),
        (Look("found", (one(),)), "landed"),
        (Look("found", (one("pending"),)), "pending"),
        (Look("found", (one("refused"),)), "refused"),
        (Look("found", (one("reversed"),)), "reversed"),
        (Look("found", (one(reference="PO-10"),)), "unreachable"),
        (Look("found", (one(), one(reference="PO-10", external_id="S-2"))), "landed"),
        (Look("found", (one(), one())), "landed"),
        (Look("found", (one(), one(external_id="S-2"))), "duplicated"),
        (Look("found", (one("refused", "S-0"), one())), "landed"),
        (Look("found", (one("pending"), one(external_id="S-2"))), "duplicated"),
    ],
)
def test_what_a_look_means(look, verdict):
    assert verdicts.read(look, SOUGHT).verdict == verdict


def test_of_several_objects_the_first_that_happened_is_named():
    reading = verdicts.read(Look("found", (one("refused", "S-0"), one(external_id="S-2"), one(external_id="S-3"))), SOUGHT)
    assert (reading.verdict, reading.found) == ("duplicated", one(external_id="S-2"))
    assert [found.external_id for found in reading.several] == ["S-2", "S-3"]
