"""The page of components forgets none: every template of templates/components/ and every word of the vocabularies is on it."""

import re
from pathlib import Path

import pytest

from console.demo import sample_dialogs, samples
from ledger.vocabulary import EFFECT_CHIPS, chip_key
from runs.vocabulary import CLEANUP_CHIPS, RUN_CHIPS, STEP_CHIPS
from tests.console.browsing import HTMX, person, text

pytestmark = pytest.mark.usefixtures("database")

COMPONENTS = Path(__file__).resolve().parents[2] / "templates/components"
PAGE = "/demo/components/"


def test_every_component_is_shown():
    shown = {template.name for template in person().get(PAGE).templates}
    assert {f"components/{path.name}" for path in COMPONENTS.glob("*.html")} <= shown


@pytest.mark.parametrize("vocabulary", [RUN_CHIPS, EFFECT_CHIPS, STEP_CHIPS, CLEANUP_CHIPS], ids=["run", "effect", "step", "clean-up"])
def test_every_word_of_the_vocabularies_is_shown(vocabulary):
    response = person().get(PAGE)
    said = text(response)
    for chip in vocabulary.values():
        assert chip.text.replace("the provider", "Supplier") in said and chip.help in said
        assert f"icons.svg#{chip.icon}" in response.content.decode()


def test_a_word_of_effects_is_made_from_what_an_effect_would_say_of_itself():
    assert [chip_key(state, relative, undo) for state, relative, _, undo in samples.effects()] == list(EFFECT_CHIPS)


def test_no_id_is_used_twice_and_every_label_leads_somewhere():
    body = person().get(PAGE).content.decode()
    ids = re.findall(r'\sid="([^"]+)"', body)
    assert len(ids) == len(set(ids)), sorted({one for one in ids if ids.count(one) > 1})
    for wanted in re.findall(r'(?:\sfor|aria-labelledby|aria-describedby)="([^"]+)"', body):
        assert set(wanted.split()) <= set(ids), wanted


@pytest.mark.parametrize("name", sample_dialogs.DIALOGS)
def test_every_dialog_opens_and_does_nothing(name):
    client = person()
    assert 'id="dialog-body"' in client.get(f"{PAGE}{name}").content.decode()
    assert "<html" not in client.get(f"{PAGE}{name}", **HTMX).content.decode()
    assert "Nothing was done. That was a sample." in text(client.post(f"{PAGE}{name}", follow=True))
    if name not in ("help", "take-over"):  # those send nothing by htmx
        assert "Nothing was done. That was a sample." in text(client.post(f"{PAGE}{name}", **HTMX))


def test_an_unknown_dialog_and_somebody_who_may_not_practise_are_refused():
    assert person().get(f"{PAGE}nonsense").status_code == 404
    assert person("Nobody", "").get(PAGE).status_code == 403
