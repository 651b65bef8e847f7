"""How templates show text from outside, money, moments and lengths of time."""

from datetime import UTC, datetime

import pytest

from console.templatetags import cm
from runs.wording import Lead, Ref

AT = datetime(2026, 3, 2, 14, 2, 7, 120_000, tzinfo=UTC)


def test_odd_characters_are_spelled_out_and_markup_is_escaped():
    shown = cm.visible("a\u202eb\x1b[0m\u200b<i>\u2028")
    assert "U+202E" in shown and "U+001B" in shown and "U+200B" in shown and "U+2028" in shown
    assert "\u202e" not in shown and "\x1b" not in shown and "<i>" not in shown
    assert 'title="right-to-left override"' in shown


def test_a_block_of_text_from_outside_is_never_processed_and_never_endless():
    block = cm.agent_text("x" * 5_000_000)
    assert block.startswith('<pre class="agent-text" tabindex="0" hx-ignore>')
    assert len(block) < 21_000 and "4,980,000 more characters" in block
    assert '"total": "1.00"' in cm.agent_text({"total": "1.00"}).replace("&quot;", '"')


def test_a_lone_surrogate_cannot_break_the_page():
    assert "U+D800" in cm.agent_text("\ud800")
    cm.agent_text("\ud800").encode()


@pytest.mark.parametrize(
    ("style", "words"),
    [("ms", "14:02:07.120 UTC"), ("seconds", "14:02:07 UTC"), ("day", "2 Mar 2026 14:02 UTC"), ("time", "14:02 UTC")],
)
def test_a_moment_reads_utc_until_the_script_localises_it(style, words):
    assert cm.timetag(AT, style) == f'<time datetime="2026-03-02T14:02:07.120Z" data-t="{style}">{words}</time>'


def test_a_missing_moment_says_so():
    assert "not yet" in cm.timetag(None, "seconds", "not yet")


def test_money_shows_symbol_and_code_and_never_guesses():
    assert cm.money(4250, "GBP") == '<span class="money">£42.50 GBP</span>'
    assert "12.345 KWD" in cm.money(12345, "KWD") and "¥500 JPY" in cm.money(500, "JPY")
    assert "7 minor units of ZZZ" in cm.money(7, "ZZZ")
    assert "—" in cm.money(None, "GBP")


def test_a_sentence_marks_its_parts_and_escapes_them():
    html = cm.sentence([Lead("<Landed>."), " see ", Ref("E-1<"), " at ", AT])
    assert html == (
        '<strong>&lt;Landed&gt;.</strong> see <code class="ref" hx-ignore>E-1&lt;</code> at '
        '<time datetime="2026-03-02T14:02:07.120Z" data-t="seconds">14:02:07 UTC</time>'
    )


def test_a_chip_carries_icon_words_help_and_who_acts_next():
    html = cm.run_chip("cancelled_unresolved")
    assert "chip-solid c-violet" in html and "icons.svg#diamond" in html and "Cancelled — unresolved" in html
    assert "Next: A person" in html


def test_counts_beside_links_stop_at_99():
    assert [cm.capped(n) for n in (0, None, 7, 99, 100)] == ["", "", "7", "99", "99+"]


def test_a_reference_longer_than_a_line_of_a_phone_may_be_broken_and_no_other():
    assert cm.ref_class("R-7K2M9Q4TXA") == cm.ref_class(None) == "ref"
    assert cm.ref_class("x" * 200) == "ref ref-long"
    assert 'class="ref ref-long"' in cm.sentence([Ref("x" * 200)])


def test_what_is_due_reads_as_a_moment_until_the_script_counts_down_to_it():
    assert cm.due(AT) == '<time class="counted" datetime="2026-03-02T14:02:07.120Z" data-t="due">at 14:02:07 UTC</time>'
