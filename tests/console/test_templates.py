"""Every template compiles, obeys the content security policy, and a pushed fragment is the same for everyone."""

import re
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import pytest
from django.template.loader import get_template, render_to_string

from ledger.sentences import EffectFacts, detail, sentence
from runs import states
from runs.sentences import HeaderFacts, header_sentence

ROOT = Path(__file__).resolve().parents[2]
TEMPLATES = sorted((ROOT / "templates").rglob("*.html"))
NAMES = [str(path.relative_to(ROOT / "templates")) for path in TEMPLATES]
SPRITE = (ROOT / "static/icons.svg").read_text()
AT = datetime(2026, 3, 2, 14, 2, 7, tzinfo=UTC)
HOSTILE = '"><script>alert(1)</script><b hx-get="/x">\u202e\x1b[31m</b>'


@pytest.mark.parametrize("name", NAMES)
def test_it_compiles(name):
    get_template(name)


@pytest.mark.parametrize("path", TEMPLATES, ids=NAMES)
def test_nothing_in_it_needs_inline_script_inline_style_or_eval(path):
    source = path.read_text()
    assert not re.search(r"\sstyle\s*=", source)
    assert not re.search(r"<style|<script(?![^>]*\ssrc=)", source)
    assert not re.search(r"\son[a-z]+\s*=", source), "an event handler attribute"
    assert "hx-on" not in source and "js:" not in source and "javascript:" not in source
    assert not re.search(r"hx-trigger=\"[^\"]*\[", source), "a trigger filter is evaluated"
    assert "|safe" not in source and "autoescape off" not in source


@pytest.mark.parametrize("path", TEMPLATES, ids=NAMES)
def test_every_form_that_changes_something_carries_a_token(path):
    for form in re.findall(r"<form.*?</form>", path.read_text(), re.S):
        assert 'method="get"' in form or "{% csrf_token %}" in form or "{% slot body %}" in form  # allauth's own slot brings it


@pytest.mark.parametrize("path", TEMPLATES, ids=NAMES)
def test_every_icon_is_in_the_sprite(path):
    for name in re.findall(r'{% icon "([^"]+)"', path.read_text()):
        assert f'<symbol id="{name}"' in SPRITE


@pytest.mark.parametrize("path", TEMPLATES, ids=NAMES)
def test_every_control_has_an_id_so_that_focus_survives_an_update(path):
    for tag in re.findall(r"<(?:input|select|textarea)\b[^>]*>", path.read_text()):
        assert 'type="hidden"' in tag or " id=" in tag, tag


@pytest.mark.parametrize("path", TEMPLATES, ids=NAMES)
def test_no_button_is_called_cancel_ok_or_confirm_and_nothing_succeeds(path):
    source = path.read_text()
    for dialog in re.findall(r'class="dialog-foot">.*?</div>', source, re.S):
        for words in re.findall(r">([^<>{}]+)</(?:a|button)>", dialog):
            assert words.strip().lower() not in ("cancel", "ok", "confirm", "yes", "no")
    assert "successful" not in source.lower() and "canceled" not in source.lower()


def a_run(status: str = "running", **more):
    base = {
        "id": "00000000-0000-0000-0000-000000000003", "ref": "R-7K2M9Q4TXA", "title": HOSTILE, "business_ref": HOSTILE,
        "agent": HOSTILE, "status": status, "version": 7, "in_flight": 1, "in_doubt": 1, "needs_person": 0, "unknowable": 0,
        "landed": 2, "effects_total": 4, "created_at": AT, "started_at": AT, "changed_at": AT, "owner_name": HOSTILE,
        "deadline_at": None, "closed_at": None, "refused_after_cancel": 0, "parent": None, "error": "",
    }  # fmt: skip
    return SimpleNamespace(**{**base, **more})


def an_effect(state: str, **more):
    facts = EffectFacts(state=state, provider_name="Acme", provider_message=HOSTILE, how_we_know="sender", **more)
    effect = SimpleNamespace(
        id="00000000-0000-0000-0000-000000000009", ref="E-1", what=HOSTILE, provider_name=HOSTILE, amount=12345, currency="KWD",
        business_ref=HOSTILE, external_id=HOSTILE, sent_at=AT, state=state, relative=facts.relative, undo=None, attempts=2,
        role="work", evidence=[{"source": "sender", "says": HOSTILE, "at": AT}], case_url=None, case_ref="",
    )  # fmt: skip
    return {"effect": effect, "says": sentence(facts), "more": detail(facts), "allowed": set()}


def pushed(status: str) -> dict[str, str]:
    run = a_run(status)
    context = {
        "run": run,
        "says": header_sentence(HeaderFacts(status, run.ref, 4, asked_by=HOSTILE, asked_at=AT, error=HOSTILE)),
        "asked": {"by": HOSTILE, "channel": "API", "at": AT, "mode": "cancel", "reason": HOSTILE},
        "times": [{"label": "Asked", "at": AT, "after_s": 0}, {"label": "Quiet", "at": None, "after_s": None}],
        "allowed": set(),
        "effects": [an_effect("landed", relative="after"), an_effect("refused")],
    }
    item = {"seq": 8, "at": AT, "lane": "effect", "lane_name": "Effect", "says": [HOSTILE], "sub": HOSTILE, "after": True, "rule": ""}
    return {
        "row": render_to_string("runs/list.html#row", {"row": {"run": run, "reason": HOSTILE, "allowed": set()}}),
        "head": render_to_string("runs/detail.html#head", context),
        "effects": render_to_string("runs/detail.html#effects", context),
        "timeline_item": render_to_string("runs/detail.html#timeline_item", {"item": item}),
    }


@pytest.mark.parametrize("status", states.STATUSES)
def test_a_pushed_fragment_offers_nothing_and_carries_no_token(status):
    for name, html in pushed(status).items():
        assert "csrf" not in html, name
        assert "data-dialog" not in html and "<form" not in html, name


@pytest.mark.parametrize("fragment", ["row", "head", "effects", "timeline_item"])
def test_text_from_outside_stays_text(fragment):
    html = pushed("cancelling")[fragment]
    assert "<script" not in html and "<b hx-get" not in html
    shown = re.sub(r'(?:aria-label|data-copy)="[^"]*"', "", html)  # copied exactly as it is, never displayed
    assert "\u202e" not in shown and "\x1b" not in shown
    assert "&lt;script&gt;" in html and "U+202E" in html and "U+001B" in html


def test_actions_appear_only_for_those_who_may():
    row = {"run": a_run(), "reason": "", "allowed": {"cancel"}}
    assert 'href="/runs/R-7K2M9Q4TXA/cancel"' in render_to_string("runs/list.html#row", {"row": row})
    assert 'href="/runs/R-7K2M9Q4TXA/cancel"' in render_to_string("runs/list.html#actions", {"row": row})


def test_an_account_that_does_not_add_up_says_so():
    account = {"version": 1, "issued_at": AT, "final": True, "total": 3, "buckets": [], "adds_up": False, "sum_error": "3 is not 2."}
    html = render_to_string("runs/detail.html#account", {"run": a_run("cancelled"), "account": account})
    assert "Records disagree" in html and "3 is not 2." in html
