"""The pages for readers: links that lead somewhere, and a guide that quotes nothing that the product does not say."""

from __future__ import annotations

import ast
import builtins
import html
import re
from functools import cache
from pathlib import Path

import pytest

import countermand
from ledger.vocabulary import EFFECT_CHIPS
from runs import errors
from runs.vocabulary import RUN_CHIPS

ROOT = Path(__file__).resolve().parent.parent
GUIDE = ROOT / "docs" / "guide"
DOCS = sorted([ROOT / "README.md", ROOT / "CHANGELOG.md", ROOT / "sdk" / "README.md", *(ROOT / "docs").rglob("*.md")])
WORDS_IN = ("runs", "ledger", "reconciliation", "console", "examples")
BOLD, QUOTE, CODE = re.compile(r"\*\*(.+?)\*\*", re.S), re.compile(r"^> (.+)$", re.M), re.compile(r"```.*?```", re.S)
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")
VARIES = re.compile(r"…")  # a name, a number or a time stands there


def name_of(path: Path) -> str:
    return str(path.relative_to(ROOT))


def anchors(path: Path) -> set[str]:
    """The anchors of a page's headings, as a browser of repositories makes them."""
    headings = re.findall(r"^#+ (.+)$", CODE.sub("", path.read_text("utf-8")), re.M)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("path", DOCS, ids=name_of)
def test_links_lead_somewhere(path: Path):
    for target in LINK.findall(CODE.sub("", path.read_text("utf-8"))):
        if re.match(r"[a-z]+:", target):
            continue
        file, _, anchor = target.partition("#")
        there = (path.parent / file).resolve() if file else path
        assert there.exists(), f"{target} does not exist"
        if anchor:
            assert anchor in anchors(there), f"{target}: no such heading"


# The guide's words are the product's


@cache
def said() -> str:
    """Everything that the product may say: its templates without their markup, and every text in its code."""
    texts = [_plain(path.read_text("utf-8")) for path in (ROOT / "templates").rglob("*.html")]
    for folder in WORDS_IN:
        for path in (ROOT / folder).rglob("*.py"):
            texts += [
                node.value
                for node in ast.walk(ast.parse(path.read_bytes()))
                if isinstance(node, ast.Constant) and isinstance(node.value, str)
            ]
    texts += [chip.text for chip in [*RUN_CHIPS.values(), *EFFECT_CHIPS.values()]]
    texts.append((ROOT / "static" / "app.js").read_text("utf-8"))
    return _normal(" \n ".join(texts))


def _plain(template: str) -> str:
    text = re.sub(r"{%\s*comment.*?endcomment\s*%}|{#.*?#}", "", template, flags=re.S)
    return html.unescape(re.sub(r"{%.*?%}|{{.*?}}|<[^>]*>", "\n", text, flags=re.S))


def _normal(text: str) -> str:
    return re.sub(r"[ \t]+", " ", text.replace("’", "'").replace("“", '"').replace("”", '"'))


def quotes(path: Path) -> list[str]:
    text = CODE.sub("", path.read_text("utf-8"))
    return BOLD.findall(text) + QUOTE.findall(text)


@pytest.mark.parametrize("path", sorted(GUIDE.glob("*.md")), ids=name_of)
def test_the_guide_quotes_what_the_product_says(path: Path):
    found = quotes(path)
    pieces = [piece.strip() for quote in found for piece in VARIES.split(_normal(quote.replace("\n", " ")))]
    missing = [piece for piece in pieces if piece.strip(" .,:") and piece not in said()]
    assert found and not missing


def test_the_codes_that_developers_are_told_exist():
    text = (GUIDE / "developers.md").read_text("utf-8")
    codes = {"code"} ^ set(re.findall(r"^\| `(\w+)` \|", text.partition("When the answer is 409")[2].partition("##")[0], re.M))
    conflicts = {one.code for one in vars(errors).values() if isinstance(one, type) and issubclass(one, errors.Conflict)}
    assert codes and codes <= conflicts


def test_the_names_of_the_package_that_developers_are_told_exist():
    text = (GUIDE / "developers.md").read_text("utf-8")
    names = set(re.findall(r"`((?:[A-Z][a-z]+)+)`", text))
    assert names and {name for name in names if not hasattr(countermand, name) and not hasattr(builtins, name)} == set()
    assert {name for name in re.findall(r"`run\.(\w+)", text) if not hasattr(countermand.Run, name)} <= {"cancelled"}  # set when it begins


def test_the_commands_and_settings_that_operators_are_told_exist():
    text = (GUIDE / "operators.md").read_text("utf-8")
    commands = {path.stem for path in ROOT.glob("*/management/commands/*.py")}
    assert set(re.findall(r"manage\.py (\w+)", text)) <= commands
    settings = (ROOT / "docs" / "operations.md").read_text("utf-8")
    assert {name for name in re.findall(r"`([A-Z][A-Z_]{4,})`", text) if f"`{name}`" not in settings} == set()


def test_the_pictures_of_the_guide_are_used_and_small():
    text = "".join(path.read_text("utf-8") for path in [ROOT / "README.md", *GUIDE.glob("*.md")])
    pictures = list((GUIDE / "images").glob("*.png"))
    assert [path.name for path in pictures if f"images/{path.name})" not in text] == []
    assert sum(path.stat().st_size for path in pictures) < 1_500_000
