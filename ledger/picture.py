"""The lanes that a run's effects have in its picture, from what its page shows of them anyway. Pure: it reads no row."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import Any

from ledger import states
from ledger.vocabulary import EFFECT_CHIPS, UNKNOWABLE, chip_key, effect_chip
from runs.picture import Chosen, Lane, Strand, more
from runs.vocabulary import Chip
from runs.wording import count

Context = dict[str, Any]

LANES_MAX = 8
UNDOS_MAX = 3  # of one effect


def pick(shown: list[Context]) -> list[Context]:
    """The effects to draw, of the items of `ledger.pages.effects`: up to LANES_MAX, in their order.

    When there are more: the first of each kind, then the second of each, and so on; in each round what is not settled comes first.
    """
    effects = [item["effect"] for item in shown]
    rank = {"solid": 0, "tint": 1, "outline": 2}
    turn: Counter[str] = Counter()
    turns = []
    for place, effect in enumerate(effects):
        key = _key(effect)
        turns.append((turn[key], rank[EFFECT_CHIPS[key].tone], place))
        turn[key] += 1
    return [effects[place] for place in sorted(place for _, _, place in sorted(turns)[:LANES_MAX])]


def lanes(picked: list[Context], total: int) -> Chosen:
    """A lane for each effect that was picked out of `total`."""
    return Chosen(tuple(map(_lane, picked)), more(total - len(picked), "action"))


def _key(effect: Context) -> str:
    return chip_key(effect["state"], effect["relative"], effect["undo"])


def _chip(effect: Context) -> Chip:
    return effect_chip(effect["state"], effect["relative"], effect["provider_name"], effect["undo"])


def _lane(effect: Context) -> Lane:
    """The effect as it came to rest, then whatever acts on it: what undoes it, or the clean-up that removed it."""
    undo = effect["undo"] if effect["undo"] == UNKNOWABLE else None
    outcome = effect_chip(effect["state"], effect["relative"], effect["provider_name"], undo)
    return Lane(
        "Clean-up" if effect["role"] == states.CLEANUP else "Action",
        effect["name"],
        _chip(effect),
        (Strand("effect", effect["ref"], outcome), *_later(effect)),
        f"#effect-{effect['id']}",
        effect["due"],
        effect["due_words"],
    )


def _later(effect: Context) -> Iterable[Strand]:
    if effect["removed_by"]:
        yield Strand("effect", effect["removed_by"], EFFECT_CHIPS["cleaned_up"])
    for undo in effect["undos"][-UNDOS_MAX:]:
        state, became = undo["chip"]
        if state:
            yield Strand("compensation", undo["ref"], effect_chip(state, None, effect["provider_name"], became))


def says(shown: list[Context], total: int) -> str:
    """How many actions there are and how they stand: the picture in one sentence."""
    if not shown:
        return "Nothing has left us."
    told: dict[str, int] = defaultdict(int)
    for item in shown:
        told[_chip(item["effect"]).text] += 1
    parts = [f"{number:,} {text[:1].lower()}{text[1:]}" for text, number in sorted(told.items(), key=lambda pair: -pair[1])]
    of = f"{count(total, 'action')}" if total == len(shown) else f"{len(shown):,} of {count(total, 'action')}"
    return f"{of}: {', '.join(parts)}."
