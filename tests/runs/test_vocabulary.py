"""Every run status has words, an icon that exists, an emphasis with a light and a dark pair, help, and somebody who acts next."""

import re
from pathlib import Path

import pytest

from runs import states
from runs.vocabulary import CLEANUP_CHIPS, RUN_CHIPS, STEP_CHIPS, run_chip

ROOT = Path(__file__).resolve().parents[2]
SPRITE = (ROOT / "static/icons.svg").read_text()
CSS = (ROOT / "static/app.css").read_text()

EXPECTED = {
    "scheduled": ("Scheduled", "clock", "outline", "grey"),
    "running": ("Running", "play", "tint", "blue"),
    "writing": ("Writing — 3 in flight", "loader", "tint", "blue"),
    "awaiting_approval": ("Awaiting approval", "hourglass", "solid", "violet"),
    "awaiting_evidence": ("Awaiting evidence", "circle-question-mark", "tint", "amber"),
    "cancelling": ("Cancelling", "circle-dot-dashed", "tint", "amber"),
    "failing": ("Failing — cleaning up", "eraser", "tint", "amber"),
    "cancelled": ("Cancelled", "circle-stop", "outline", "grey"),
    "cancelled_pending": ("Cancelled — effects pending", "diamond", "tint", "amber"),
    "cancelled_unresolved": ("Cancelled — unresolved", "diamond", "solid", "violet"),
    "cancelled_reconciled": ("Cancelled — reconciled", "circle-stop", "outline", "grey"),
    "completed": ("Completed", "circle-check", "outline", "green"),
    "completed_pending": ("Completed — effects pending", "diamond", "tint", "amber"),
    "completed_unresolved": ("Completed — unresolved", "diamond", "solid", "violet"),
    "completed_reconciled": ("Completed — reconciled", "circle-check", "outline", "green"),
    "failed": ("Failed", "circle-x", "outline", "red"),
    "failed_pending": ("Failed — effects pending", "diamond", "tint", "amber"),
    "failed_unresolved": ("Failed — unresolved", "diamond", "solid", "violet"),
    "failed_reconciled": ("Failed — reconciled", "circle-x", "outline", "red"),
    "terminated": ("Terminated", "octagon-x", "outline", "red"),
    "terminated_pending": ("Terminated — effects pending", "diamond", "tint", "amber"),
    "terminated_unresolved": ("Terminated — unresolved", "diamond", "solid", "violet"),
    "terminated_reconciled": ("Terminated — reconciled", "octagon-x", "outline", "red"),
}


def test_the_table_covers_exactly_the_statuses_of_the_domain():
    assert set(RUN_CHIPS) == set(states.STATUSES) == set(EXPECTED)


@pytest.mark.parametrize("status", EXPECTED)
def test_words_icon_and_emphasis(status):
    chip = run_chip(status, in_flight=3)
    assert (chip.text, chip.icon, chip.tone, chip.colour) == EXPECTED[status]


@pytest.mark.parametrize("chip", [*RUN_CHIPS.values(), *STEP_CHIPS.values(), *CLEANUP_CHIPS.values()], ids=lambda chip: chip.text)
def test_every_chip_is_whole(chip):
    assert f'<symbol id="{chip.icon}"' in SPRITE
    assert re.search(rf"\.chip-{chip.tone}\b", CSS)
    assert re.search(rf"--{chip.colour}: light-dark\(#\w+, #\w+\)", CSS)
    assert chip.help.endswith(".") and chip.who.endswith(".")


@pytest.mark.parametrize("status", [status for status in EXPECTED if EXPECTED[status][2] == "solid"])
def test_solid_always_means_that_a_person_acts(status):
    assert re.search("person|approver", RUN_CHIPS[status].who)


@pytest.mark.parametrize("status", [status for status in EXPECTED if EXPECTED[status][2] != "solid"])
def test_nothing_else_looks_as_if_a_person_had_to_act(status):
    assert not RUN_CHIPS[status].who.startswith(("A person", "An approver"))


def test_no_chip_claims_success_or_looks_final_while_something_is_unknown():
    words = " ".join(f"{chip.text} {chip.help}" for chip in RUN_CHIPS.values()).lower()
    assert "success" not in words and "canceled" not in words
    for state in states.CLOSED:
        for tail in ("pending", "unresolved"):
            assert RUN_CHIPS[f"{state}_{tail}"].icon != RUN_CHIPS[state].icon
            assert RUN_CHIPS[f"{state}_{tail}"].tone != "outline"


def test_a_word_that_is_no_status_is_refused():
    with pytest.raises(KeyError):
        run_chip("canceled")
