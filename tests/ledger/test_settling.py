"""What a fact makes of an effect, as one truth table for each source, and the properties that hold over everything reachable."""

from __future__ import annotations

from collections import deque
from functools import cache
from itertools import permutations, product

import pytest

from ledger import settling
from ledger import states as s
from ledger.settling import AGREES, APPLIED, CONFLICTS, LATE, from_outside, from_person, from_sender

OUTSIDE = (s.LANDED, s.PENDING, s.REFUSED, s.ABSENT, s.REVERSED, s.DUPLICATED, s.CONFLICTED)
PERSON = (s.LANDED, s.REFUSED, s.ABSENT)
UNSENT = (s.DECLARED, s.ABSENT, s.WITHHELD)

# One attempt, as its own sender left it; what a report makes of it while the run is running.
SENDER = {
    # before      landed                      refused                     pending                  unknown                  not_sent
    s.SENDING: [(s.LANDED, APPLIED), (s.REFUSED, APPLIED), (s.PENDING, APPLIED), (s.UNKNOWN, APPLIED), (s.DECLARED, APPLIED)],
    s.UNKNOWN: [(s.LANDED, APPLIED), (s.REFUSED, APPLIED), (s.PENDING, APPLIED), (s.UNKNOWN, AGREES), (s.DECLARED, APPLIED)],
    s.AMBIGUOUS: [(s.LANDED, APPLIED), (s.REFUSED, APPLIED), (s.PENDING, APPLIED), (s.AMBIGUOUS, AGREES), (s.DECLARED, APPLIED)],
    s.PENDING: [(s.LANDED, APPLIED), (s.REFUSED, APPLIED), (s.PENDING, AGREES), (s.PENDING, LATE), (s.CONFLICTED, CONFLICTS)],
    s.LANDED: [(s.LANDED, AGREES), (s.CONFLICTED, CONFLICTS), (s.LANDED, LATE), (s.LANDED, LATE), (s.CONFLICTED, CONFLICTS)],
    s.REFUSED: [(s.CONFLICTED, CONFLICTS), (s.REFUSED, AGREES), (s.REFUSED, LATE), (s.REFUSED, LATE), (s.REFUSED, AGREES)],
    s.ABSENT: [(s.CONFLICTED, CONFLICTS), (s.ABSENT, AGREES), (s.CONFLICTED, CONFLICTS), (s.ABSENT, LATE), (s.ABSENT, AGREES)],
    s.DECLARED: [(s.CONFLICTED, CONFLICTS), (s.DECLARED, AGREES), (s.CONFLICTED, CONFLICTS), (s.DECLARED, LATE), (s.DECLARED, AGREES)],
    s.WITHHELD: [(s.CONFLICTED, CONFLICTS), (s.WITHHELD, AGREES), (s.CONFLICTED, CONFLICTS), (s.WITHHELD, LATE), (s.WITHHELD, AGREES)],
    s.DUPLICATED: [
        (s.DUPLICATED, AGREES),
        (s.CONFLICTED, CONFLICTS),
        (s.DUPLICATED, LATE),
        (s.DUPLICATED, LATE),
        (s.CONFLICTED, CONFLICTS),
    ],
    s.REVERSED: [(s.REVERSED, AGREES), (s.CONFLICTED, CONFLICTS), (s.REVERSED, LATE), (s.REVERSED, LATE), (s.CONFLICTED, CONFLICTS)],
}
ATTEMPT_OF = {
    s.AMBIGUOUS: s.UNKNOWN,
    s.DECLARED: s.NOT_SENT,
    s.WITHHELD: s.NOT_SENT,
    s.DUPLICATED: s.LANDED,
    s.REVERSED: s.LANDED,
}

OUT = {
    # before: landed, pending, refused, absent, reversed, duplicated, conflicted (it does not match)
    s.DECLARED: ["C", "C", "C", "=", "C", "C", "C"],
    s.WITHHELD: ["C", "C", "C", "=", "C", "C", "C"],
    s.SENDING: [s.LANDED, s.PENDING, s.REFUSED, s.ABSENT, s.REVERSED, s.DUPLICATED, "C"],
    s.UNKNOWN: [s.LANDED, s.PENDING, s.REFUSED, s.ABSENT, s.REVERSED, s.DUPLICATED, "C"],
    s.AMBIGUOUS: [s.LANDED, s.PENDING, s.REFUSED, s.ABSENT, s.REVERSED, s.DUPLICATED, "C"],
    s.PENDING: [s.LANDED, "=", s.REFUSED, s.ABSENT, s.REVERSED, s.DUPLICATED, "C"],
    s.LANDED: ["=", "late", "C", "C", s.REVERSED, s.DUPLICATED, "C"],
    s.REFUSED: ["C", "late", "=", "=", "C", "C", "C"],
    s.ABSENT: ["C", "C", "=", "=", "C", "C", "C"],
    s.REVERSED: ["late", "late", "C", "C", "=", "C", "C"],
    s.DUPLICATED: ["late", "late", "late", "late", "late", "late", "C"],
    s.CONFLICTED: ["late", "late", "late", "late", "late", "late", "late"],
}


def attempts_of(state: str) -> tuple[str, ...]:
    return (ATTEMPT_OF.get(state, state),)


@pytest.mark.parametrize("state", SENDER)
def test_a_senders_report_while_the_run_is_running(state):
    for verdict, expected in zip(s.REPORTABLE, SENDER[state], strict=True):
        judged = from_sender(state, attempts_of(state), 0, verdict, s.DECLARED)
        assert (judged.effect, judged.used_as) == expected, verdict


@pytest.mark.parametrize("state", OUT)
def test_a_look_or_a_webhook(state):
    attempts = (s.UNKNOWN,) if state == s.CONFLICTED else attempts_of(state)
    for verdict, expected in zip(OUTSIDE, OUT[state], strict=True):
        judged = from_outside(state, attempts, verdict)
        meaning = {"C": (s.CONFLICTED, CONFLICTS), "=": (state, AGREES), "late": (state, LATE)}.get(expected, (expected, APPLIED))
        assert (judged.effect, judged.used_as) == meaning, verdict


@pytest.mark.parametrize("state", s.STATES)
def test_a_persons_word_settles_only_what_is_in_doubt(state):
    for verdict in PERSON:
        judged = from_person(state, (s.UNKNOWN,), verdict)
        if state in (s.CONFLICTED, s.SENDING, s.UNKNOWN, s.AMBIGUOUS, s.PENDING):
            assert (judged.effect, judged.used_as) == (verdict, APPLIED)
        else:
            assert judged == from_outside(state, (s.UNKNOWN,), verdict)


@pytest.mark.parametrize("unsent", UNSENT)
def test_not_sent_leads_to_where_the_run_stands(unsent):
    """Declared only for a running run; absent for one that is waiting; withheld once it was cancelled or closed."""
    for state in (s.SENDING, s.UNKNOWN, s.AMBIGUOUS):
        assert from_sender(state, attempts_of(state), 0, s.NOT_SENT, unsent).effect == unsent


def test_not_sent_twice_is_still_not_sent_but_not_after_something_else_left():
    assert from_sender(s.SENDING, (s.NOT_SENT, s.SENDING), 1, s.NOT_SENT, s.DECLARED).effect == s.DECLARED
    assert from_sender(s.SENDING, (s.ABSENT, s.SENDING), 1, s.NOT_SENT, s.DECLARED).effect == s.ABSENT
    assert from_sender(s.UNKNOWN, (s.ABSENT, s.UNKNOWN), 1, s.NOT_SENT, s.WITHHELD).effect == s.ABSENT


def test_refused_only_if_every_attempt_was():
    assert from_sender(s.SENDING, (s.ABSENT, s.SENDING), 1, s.REFUSED, s.DECLARED).effect == s.REFUSED
    assert from_sender(s.UNKNOWN, (s.UNKNOWN, s.UNKNOWN), 1, s.REFUSED, s.DECLARED).effect == s.UNKNOWN
    assert from_sender(s.UNKNOWN, (s.UNKNOWN, s.REFUSED), 0, s.NOT_SENT, s.DECLARED).effect == s.REFUSED


def test_landed_if_any_attempt_landed_and_never_lost():
    assert from_sender(s.UNKNOWN, (s.UNKNOWN, s.UNKNOWN), 0, s.LANDED, s.DECLARED).effect == s.LANDED
    assert from_sender(s.LANDED, (s.LANDED, s.UNKNOWN), 1, s.REFUSED, s.DECLARED).effect == s.LANDED


@pytest.mark.parametrize("state", [s.REFUSED, s.ABSENT, s.DECLARED, s.WITHHELD, s.LANDED, s.REVERSED, s.DUPLICATED])
def test_an_undecided_attempt_of_a_settled_effect_contradicts_it_only_by_landing(state):
    """And what has landed is not contradicted by that either: what its attempt says is kept, and comes late."""
    for verdict in (s.LANDED, s.REFUSED, s.PENDING, s.NOT_SENT):
        judged = from_sender(state, (s.UNKNOWN,), 0, verdict, s.DECLARED)
        contradicts = verdict == s.LANDED and state not in (s.LANDED, s.REVERSED, s.DUPLICATED)
        assert (judged.effect, judged.used_as) == ((s.CONFLICTED, CONFLICTS) if contradicts else (state, LATE)), verdict
        assert judged.attempts == (verdict,)


def test_a_confirmation_of_something_else_conflicts_and_settles_its_attempt():
    for state in (s.SENDING, s.UNKNOWN, s.PENDING):
        judged = from_sender(state, (state,), 0, s.LANDED, s.DECLARED, mismatch=True)
        assert judged == settling.Judgement(s.CONFLICTED, (s.LANDED,), CONFLICTS)
    late = from_sender(s.CONFLICTED, (s.UNKNOWN,), 0, s.LANDED, s.DECLARED, mismatch=True)
    assert (late.effect, late.used_as) == (s.CONFLICTED, LATE)


Node = tuple[str, tuple[str, ...]]


def reach() -> list[tuple[Node, str, Node]]:
    """Every (before, what happened, after) that facts, silence, policy and people can bring about, with up to three attempts."""
    edges: list[tuple[Node, str, Node]] = []
    first: Node = (s.SENDING, (s.SENDING,))
    queue, seen = deque([first, (s.DECLARED, ())]), {first, (s.DECLARED, ())}
    while queue:
        node = queue.popleft()
        for name, after in steps(*node):
            edges.append((node, name, after))
            if after not in seen:
                seen.add(after)
                queue.append(after)
    return edges


@cache
def steps(state: str, attempts: tuple[str, ...]) -> list[tuple[str, Node]]:
    found: list[tuple[str, Node]] = []
    for index, verdict, unsent in product(range(len(attempts)), s.REPORTABLE, UNSENT):
        for mismatch in (False, True) if verdict == s.LANDED else (False,):
            judged = from_sender(state, attempts, index, verdict, unsent, mismatch)
            found.append((f"sender {index} {verdict} {unsent} {mismatch}", (judged.effect, judged.attempts)))
    if attempts:
        for verdict in OUTSIDE if state in s.LOOKED_AT else [v for v in OUTSIDE if v != s.ABSENT]:  # absence is proved by looks only
            judged = from_outside(state, attempts, verdict)
            found.append((f"outside {verdict}", (judged.effect, judged.attempts)))
    if state in (s.AMBIGUOUS, s.CONFLICTED):
        for verdict in PERSON:
            judged = from_person(state, attempts, verdict)
            found.append((f"person {verdict}", (judged.effect, judged.attempts)))
    if s.SENDING in attempts:
        silent = tuple(s.UNKNOWN if a == s.SENDING else a for a in attempts)
        found.append(("silence", (s.UNKNOWN if state == s.SENDING else state, silent)))
    if state == s.PENDING:
        found.append(("final_by", (s.UNKNOWN, attempts)))
    if state == s.UNKNOWN:
        found.append(("ceiling", (s.AMBIGUOUS, attempts)))
    if state == s.DECLARED:
        found.append(("close", (s.WITHHELD, attempts)))
    if state in (s.DECLARED, s.ABSENT) and len(attempts) < 3:
        found.append(("begin", (s.SENDING, (*attempts, s.SENDING))))
    return found


EDGES = reach()


def test_every_reachable_judgement_is_a_legal_move():
    illegal = {(a[0], b[0], how) for a, how, b in EDGES if a[0] != b[0] and b[0] not in s.MOVES[a[0]]}
    assert not illegal


def test_nothing_but_a_begin_leads_to_sending():
    assert {how for a, how, b in EDGES if b[0] == s.SENDING and a[0] != s.SENDING} == {"begin"}
    assert all(a[0] in (s.DECLARED, s.ABSENT) for a, how, b in EDGES if how == "begin")


def test_only_one_attempt_is_ever_sending_and_none_when_a_new_one_begins():
    assert all(b[1].count(s.SENDING) <= 1 for _, _, b in EDGES)
    assert all(s.SENDING not in a[1] for a, how, _ in EDGES if how == "begin")


def test_a_new_attempt_begins_only_when_every_earlier_one_is_over():
    """Not sent, refused or proved absent; or a person has settled a contradiction as absent."""
    for before, how, _ in EDGES:
        if how == "begin" and before[0] == s.DECLARED:
            assert set(before[1]) <= {s.NOT_SENT}, before


def test_doubt_is_left_for_a_sendable_state_only_by_proof():
    proofs = ("not_sent", "absent", "refused")
    for a, how, b in EDGES:
        if a[0] in s.DOUBT and b[0] in (s.DECLARED, s.ABSENT):
            assert any(word in how for word in proofs), (a, how, b)


def test_what_is_known_changes_only_by_contradiction_or_an_undo():
    for a, how, b in EDGES:
        if a[0] in s.KNOWN and a[0] != b[0] and how != "begin":
            assert b[0] == s.CONFLICTED or (a[0], b[0]) in {(s.LANDED, s.REVERSED), (s.LANDED, s.DUPLICATED)}, (a, how, b)


def test_the_same_fact_twice_changes_nothing_the_second_time():
    for how, b in {(how, b) for _, how, b in EDGES if how.startswith(("outside", "sender"))}:
        repeated = next((after for name, after in steps(*b) if name == how), b)
        assert repeated[0] == b[0], (b, how, repeated)


@pytest.mark.parametrize("start", [s.SENDING, s.UNKNOWN, s.AMBIGUOUS])
@pytest.mark.parametrize("news", [(s.PENDING, s.LANDED), (s.PENDING, s.LANDED, s.REVERSED), (s.PENDING, s.REFUSED), (s.LANDED, s.REVERSED)])
def test_webhooks_in_any_order_and_doubled_end_in_the_same_place(start, news):
    ends = set()
    for order in permutations(news + news):
        state, attempts = start, attempts_of(start)
        for verdict in order:
            judged = from_outside(state, attempts, verdict)
            state, attempts = judged.effect, judged.attempts
        ends.add(state)
    assert ends == {news[-1]}


@pytest.mark.parametrize("own", [s.LANDED, s.UNKNOWN, s.PENDING])
def test_the_sender_and_the_provider_may_speak_in_any_order(own):
    ends = set()
    for order in permutations([own, "webhook landed", "webhook pending"]):
        state, attempts = s.SENDING, (s.SENDING,)
        for said in order:
            if said.startswith("webhook"):
                judged = from_outside(state, attempts, said.split()[1])
            else:
                judged = from_sender(state, attempts, 0, said, s.DECLARED)
            state, attempts = judged.effect, judged.attempts
        ends.add(state)
    assert ends == {s.LANDED}


def test_every_effect_counts_once_whatever_its_state():
    for state, role, unknowable in product(s.STATES, s.ROLES, (False, True)):
        counted = s.counts(state, role, unknowable and state in s.DOUBT, False)
        assert set(counted) == set(s.COUNTERS) and set(counted.values()) <= {0, 1}
        assert counted["in_flight"] + counted["in_doubt"] + counted["unknowable"] <= 1
        if role == s.COMPENSATION:
            assert not any(counted.values())


@pytest.mark.parametrize("state", [s.UNKNOWN, s.AMBIGUOUS])
def test_one_object_settles_the_last_attempt_and_that_there_is_none_settles_them_all(state):
    both = (s.UNKNOWN, s.UNKNOWN)
    assert from_outside(state, both, s.LANDED).attempts == (s.UNKNOWN, s.LANDED)
    assert from_outside(state, (s.UNKNOWN, s.NOT_SENT), s.LANDED).attempts == (s.LANDED, s.NOT_SENT)
    assert from_outside(state, both, s.ABSENT).attempts == (s.ABSENT, s.ABSENT)
    assert from_outside(state, both, s.REFUSED).attempts == (s.REFUSED, s.REFUSED)
