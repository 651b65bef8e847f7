"""A case before its ceiling, because a person asks for one; and what could not be known, taken up again."""

from __future__ import annotations

import pytest

from reconciliation import findings, on_request
from tests.fakes import found
from tests.makers import (
    OTHER,
    SUPPORT,
    WORKER,
    again,
    fresh,
    look,
    new_run,
    open_cases,
    refused,
    send,
    settle,
    sweep,
    tell,
)

pytestmark = pytest.mark.usefixtures("counters")


def sent_with(verdict):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    tell(sent, verdict)
    return run, sent


@pytest.mark.parametrize("verdict", ["unknown", "pending"])
def test_a_case_is_opened_once_and_looks_go_on(fake, verdict):
    run, sent = sent_with(verdict)
    case, opened = on_request.open_case(SUPPORT, sent.effect.pk, "The customer is on the phone.")
    assert (opened, case.kind, case.why) == (True, "ceiling", "The customer is on the phone.")
    assert on_request.open_case(OTHER, sent.effect.pk, "") == (case, False)
    assert (again(sent).state, fresh(run).needs_person) == ("ambiguous", 1)
    fake.answer = found
    assert look(6) == ["landed"]
    sweep()
    assert not open_cases()


@pytest.mark.parametrize("verdict", ["landed", "refused"])
def test_what_is_known_needs_nobody(fake, verdict):
    run, sent = sent_with(verdict)
    with refused("invalid"):
        on_request.open_case(SUPPORT, sent.effect.pk, "")
    assert not open_cases()


def test_it_takes_a_person_who_settles_cases(fake):
    run, sent = sent_with("unknown")
    with refused("not_allowed"):
        on_request.open_case(WORKER, sent.effect.pk, "")


def test_what_could_not_be_known_is_taken_up_again(fake):
    fake.promise(lookup="none")
    run, sent = sent_with("unknown")
    sweep()
    settle(open_cases()[0], "cannot_be_known")
    findings.confirm(OTHER, open_cases()[0].pk, True)
    assert (fresh(run).unknowable, fresh(run).in_doubt) == (1, 0)
    case, opened = on_request.open_case(SUPPORT, sent.effect.pk, "Their archive was found.")
    assert opened and (fresh(run).unknowable, fresh(run).in_doubt, fresh(run).needs_person) == (0, 1, 1)
    settle(case, "happened")
    assert (again(sent).state, fresh(run).settlement) == ("landed", "reconciled")
