"""Every effect state, with its relation to the cancel and what became of it since, has its words, icon and emphasis."""

import re
from pathlib import Path

import pytest

from ledger.vocabulary import EFFECT_CHIPS, STATES, effect_chip

ROOT = Path(__file__).resolve().parents[2]
SPRITE = (ROOT / "static/icons.svg").read_text()
CSS = (ROOT / "static/app.css").read_text()

CASES = [
    (("declared",), ("Not sent yet", "clock", "outline", "grey")),
    (("withheld",), ("Not sent", "circle-slash", "outline", "grey")),
    (("sending",), ("In flight", "loader", "tint", "amber")),
    (("pending",), ("Accepted, not final", "hourglass", "tint", "amber")),
    (("landed",), ("Landed", "circle-check", "outline", "green")),
    (("landed", "before"), ("Landed before the cancel", "circle-check", "outline", "green")),
    (("landed", "after"), ("Landed — confirmed after the cancel", "triangle-alert", "tint", "amber")),
    (("refused", None, "Stripe"), ("Refused by Stripe", "circle-x", "outline", "grey")),
    (("absent",), ("Did not happen", "circle-slash", "outline", "grey")),
    (("unknown",), ("Unknown — checking", "circle-question-mark", "tint", "amber")),
    (("ambiguous",), ("Unknown — needs a person", "file-question-mark", "solid", "violet")),
    (("ambiguous", None, "", "unknowable"), ("Can't be known", "file-question-mark", "outline", "grey")),
    (("conflicted",), ("Answers disagree", "badge-alert", "solid", "violet")),
    (("duplicated",), ("Happened more than once", "badge-alert", "solid", "violet")),
    (("reversed", None, "Stripe"), ("Undone by Stripe", "undo-2", "tint", "amber")),
    (("landed", "after", "", "undo_waiting"), ("Undo waiting for approval", "users", "solid", "violet")),
    (("landed", "after", "", "undone"), ("Undone", "undo-2", "outline", "green")),
    (("landed", None, "", "undo_failed"), ("Undo failed", "badge-alert", "solid", "violet")),
    (("landed", "before", "", "cleaned_up"), ("Removed by cleanup", "eraser", "outline", "green")),
]


@pytest.mark.parametrize(("given", "expected"), CASES, ids=[" ".join(map(str, given)) for given, _ in CASES])
def test_words_icon_and_emphasis(given, expected):
    chip = effect_chip(*given)
    assert (chip.text, chip.icon, chip.tone, chip.colour) == expected


def test_every_state_and_every_entry_is_met_above():
    assert {given[0] for given, _ in CASES} == set(STATES)
    assert len(CASES) == len(EFFECT_CHIPS)


@pytest.mark.parametrize("chip", EFFECT_CHIPS.values(), ids=EFFECT_CHIPS)
def test_every_chip_is_whole(chip):
    assert f'<symbol id="{chip.icon}"' in SPRITE
    assert re.search(rf"\.chip-{chip.tone}\b", CSS)
    assert re.search(rf"--{chip.colour}: light-dark\(#\w+, #\w+\)", CSS)
    assert chip.help.endswith(".") and chip.who.endswith(".")


def test_what_became_of_it_later_speaks_only_for_something_that_landed():
    assert effect_chip("unknown", "after", "", "undone").text == "Unknown — checking"
    assert effect_chip("unknown", "before").text == "Unknown — checking"


def test_nothing_about_a_doubtful_effect_offers_to_send_it_again():
    for state in ("unknown", "ambiguous", "conflicted", "sending", "pending"):
        words = f"{EFFECT_CHIPS[state].text} {EFFECT_CHIPS[state].help}".lower()
        assert "retry" not in words and "try again" not in words and "success" not in words
