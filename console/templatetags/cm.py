"""How templates show chips, icons, moments, money, sentences and text that came from outside. Renders only: it knows no rule."""

from __future__ import annotations

import json
import re
import unicodedata
from collections.abc import Iterable
from datetime import UTC, datetime
from functools import lru_cache
from typing import Any

from django import template
from django.templatetags.static import static
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from ledger import money as money_words
from ledger.vocabulary import EFFECT_CHIPS
from ledger.vocabulary import effect_chip as effect_words
from runs import wording
from runs.vocabulary import RUN_CHIPS, Chip
from runs.vocabulary import run_chip as run_words
from runs.wording import Lead, Part, Ref

register = template.Library()

REF_MAX = 24  # characters
AGENT_TEXT_MAX = 20_000  # characters shown of a text that came from outside
_OURS = re.compile(r"[REQC]-[0-9A-HJKMNP-TV-Z]{10}\Z")
_PLACES = {"R-": "/runs/", "E-": "/effects/", "Q-": "/cases/", "C-": "/undo/"}  # each redirects to the address in its full form
NOTHING = "\u2014"


@register.simple_tag
def icon(name: str, label: str = "") -> SafeString:
    """An icon of the sprite; decorative unless it has a label."""
    if label:
        return format_html('<svg class="icon" role="img" aria-label="{}"><use href="{}#{}"/></svg>', label, static("icons.svg"), name)
    return format_html('<svg class="icon" aria-hidden="true"><use href="{}#{}"/></svg>', static("icons.svg"), name)


@register.simple_tag
@lru_cache(maxsize=256)
def chip(words: Chip) -> SafeString:
    """A chip; the same few are on every row of a list."""
    return format_html(
        '<span class="chip chip-{} c-{}" title="{} Next: {}">{}<span>{}</span></span>',
        words.tone, words.colour, words.help, words.who, icon(words.icon), visible(words.text),
    )  # fmt: skip


@register.simple_tag
def run_chip(status: str, in_flight: int = 0) -> SafeString:
    return chip(run_words(status, in_flight or 0))


@register.simple_tag
def effect_chip(state: str, relative: str | None = None, provider: str = "", undo: str | None = None) -> SafeString:
    return chip(effect_words(state, relative or None, provider or "", undo or None))


@register.filter
def run_word(status: str) -> str:
    """The words of a run's chip, without its look (page titles, announcements)."""
    return RUN_CHIPS[status].text


@register.filter
def style_of(words: Chip) -> str:
    """The classes that make something look like a chip: emphasis and colour."""
    return f"is-{words.tone} c-{words.colour}"


@register.simple_tag
def run_words_all() -> list[Chip]:
    return list(RUN_CHIPS.values())


@register.simple_tag
def effect_words_all() -> list[Chip]:
    return list(EFFECT_CHIPS.values())


@register.simple_tag
def timetag(at: datetime | None, style: str = "seconds", missing: str = NOTHING) -> SafeString:
    """`<time>` that app.js renders in the reader's zone. Styles: ago (relative under a day), day, seconds, ms.

    Without JavaScript it reads UTC.
    """
    if at is None:
        return format_html('<span class="muted">{}</span>', missing)
    at = at.astimezone(UTC)
    clock = {"ms": f"{at:%H:%M:%S}.{at.microsecond // 1000:03d}", "seconds": f"{at:%H:%M:%S}"}.get(style, f"{at:%H:%M}")
    day = f"{at.day} {at:%b %Y} " if style in ("ago", "day") else ""
    return format_html('<time datetime="{}" data-t="{}">{}{} UTC</time>', _iso(at), style, day, clock)


@register.simple_tag
def since(at: datetime | None) -> SafeString:
    """A length of time that app.js counts up (`data-since`); the moment it started is its text without JavaScript."""
    return _counted(at, "since")


@register.simple_tag
def due(at: datetime | None) -> SafeString:
    """When something happens by itself, counted down (exact without JavaScript); once it is past, the page asks what came of it."""
    return _counted(at, "due", "at")


@register.simple_tag
def until(at: datetime | None) -> SafeString:
    """A length of time that app.js counts down to `at`."""
    return _counted(at, "until")


def _counted(at: datetime | None, kind: str, said: str = "") -> SafeString:
    if at is None:
        return format_html("{}", NOTHING)
    return format_html(
        '<time class="counted" datetime="{}" data-t="{}">{} {}</time>', _iso(at), kind, said or kind, wording.moment_text(at)
    )


def _iso(at: datetime) -> str:
    return at.astimezone(UTC).isoformat(timespec="milliseconds").removesuffix("+00:00") + "Z"


@register.filter
def duration(seconds: float | None) -> str:
    return NOTHING if seconds is None else wording.duration(seconds)


@register.filter
def plus(seconds: float | None) -> str:
    """An offset from the cancel: `+1.2 s`; `not yet` while it has not happened."""
    return "not yet" if seconds is None else f"+{wording.duration(seconds)}"


@register.simple_tag
def money(minor: int | None, currency: str | None) -> SafeString:
    """`£42.50 GBP` from minor units; a dash without an amount. An unknown code is shown as it is, never guessed."""
    if minor is None or not currency:
        return format_html('<span class="muted">{}</span>', NOTHING)
    try:
        text = money_words.money_text(minor, currency)
    except money_words.UnknownCurrency:
        text = f"{minor} minor units of {currency}"
    return format_html('<span class="money">{}</span>', text)


@register.simple_tag
def sentence(parts: Iterable[Part]) -> SafeString:
    """A sentence of `runs.wording` parts: leads bold, references in monospace, moments as `<time>`."""
    return format_html_join("", "{}", ((_part(part),) for part in parts))


def _part(part: Part) -> SafeString:
    if isinstance(part, datetime):
        return timetag(part, "seconds")
    if isinstance(part, Lead):
        return format_html("<strong>{}</strong>", visible(part))
    if isinstance(part, Ref):
        place = _PLACES.get(part[:2], "") if _OURS.match(part) else ""
        if place:
            return format_html('<a class="ref" href="{}{}">{}</a>', place, str(part), str(part))
        return format_html('<code class="{}" hx-ignore>{}</code>', ref_class(part), visible(part))
    return visible(part)


@register.filter
def ref_class(ref: Any) -> str:
    """The class of a reference from outside: one that is longer than a line of a phone may be broken, any other never is."""
    return "ref ref-long" if len(str(ref or "")) > REF_MAX else "ref"


@register.filter
def visible(text: Any) -> SafeString:
    """Text from outside, on one line or in a sentence: escaped, with control and bidi characters spelled out."""
    if not isinstance(text, str):
        text = "" if text is None else str(text)
    if text.isprintable():  # has no odd character: nearly every text, and lists are full of them
        return format_html("{}", text)
    runs: list[str] = [""]
    for character in text:
        if _is_odd(character):
            runs += [_spelled(character), ""]
        else:
            runs[-1] += character
    return format_html_join("", "{}", ((run,) for run in runs))


def _is_odd(character: str) -> bool:
    """Controls, format characters (bidi, zero width) and unpaired surrogates; newline and tab are ordinary."""
    return character not in "\n\t" and unicodedata.category(character) in ("Cc", "Cf", "Cs", "Zl", "Zp")


def _spelled(character: str) -> SafeString:
    name = unicodedata.name(character, "control character").lower()
    return format_html('<span class="codepoint" title="{}">U+{}</span>', name, f"{ord(character):04X}")


@register.filter
def agent_text(value: Any) -> SafeString:
    """Text or JSON from an agent, a model or a provider, as a block: never markup, never processed by htmx, cut when huge."""
    text = value if isinstance(value, str) else json.dumps(value, indent=2, ensure_ascii=False, sort_keys=True, default=str)
    rest = len(text) - AGENT_TEXT_MAX
    cut = format_html('<span class="muted">\n… {} more characters</span>', f"{rest:,}") if rest > 0 else ""
    return format_html('<pre class="agent-text" tabindex="0" hx-ignore>{}{}</pre>', visible(text[:AGENT_TEXT_MAX]), cut)


@register.filter
def capped(number: int | None) -> str:
    """A count beside a link: `99+` at most."""
    return "" if not number else "99+" if number > 99 else str(number)


@register.simple_tag(takes_context=True)
def query(context: dict[str, Any], **changes: Any) -> str:
    """The page's own query string with some values changed (None removes one): `?state=running&after=…`."""
    params = context["request"].GET.copy()
    for name, value in changes.items():
        params.pop(name, None)
        if value not in (None, ""):
            params[name] = value
    return f"?{params.urlencode()}" if params else "?"
