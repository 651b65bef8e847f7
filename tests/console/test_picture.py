"""The picture on the page of a run: made from real runs, bounded, and never at odds with the account beside it."""

import re

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext

from console.pages import contexts, fragments
from runs import cleaning, family, waiting
from runs.models import Run
from tests import undo
from tests.console.browsing import person
from tests.makers import WORKER, again, cancel, child_of, fresh, new_run, send, step, tell

pytestmark = pytest.mark.usefixtures("database")


def picture_of(run: Run):
    run = fresh(run)
    return contexts.picture(run, contexts.effects(run), family.below(run))


def lanes(run: Run) -> dict[str, tuple[str, ...]]:
    """The icons of each lane, by its name."""
    return {one.lane.name: tuple(mark.chip.icon for mark in one.marks) for one in picture_of(run).lanes}


def test_a_run_that_did_nothing_has_none():
    run, _ = new_run(holder="")
    assert picture_of(run) is None
    assert re.search(r'id="run-picture"[^>]* hidden>', person().get(f"/runs/{run.ref}/").content.decode())


def test_one_look_tells_what_landed_before_and_after_what_is_unknown_and_what_was_never_sent():
    run, token = new_run()
    refs = ["landed before", "landed after", "unknown", "never sent"]
    before, after, unknown, _ = (send(run, token, ref=ref, step=ref, begin=ref != "never sent") for ref in refs)
    tell(before, "landed", external_id="S-1")
    cancel(run)
    tell(after, "landed", external_id="S-2")
    tell(unknown, "unknown")
    shown = picture_of(run)
    (rule,) = [rule for rule in shown.rules if rule.kind == "cancel"]
    actions = {one.lane.name.partition("EUR ")[2]: one for one in shown.lanes if one.lane.kind == "Action"}
    assert {ref: one.marks[0].chip.icon for ref, one in actions.items()} == dict(
        zip(refs, ["circle-check", "triangle-alert", "circle-question-mark", "circle-slash"], strict=True)
    )
    assert {ref: one.marks[0].x < rule.x for ref, one in actions.items()} == {ref: ref == "landed before" for ref in refs}
    assert actions["unknown"].marks[0].position is None
    assert rule.position == fresh(run).cancel_position
    for sent in (before, after):
        effect = again(sent)
        assert actions[effect.business_ref].marks[0].position == effect.known_position
    assert shown.says == ("4 actions: 1 landed before the cancel, 1 landed — confirmed after the cancel, 1 unknown — checking, 1 not sent.")


def test_the_page_says_it_in_words_and_counts_down_to_the_next_look():
    run, token = new_run()
    tell(send(run, token), "unknown")
    due = next_look(run)
    html = person().get(f"/runs/{run.ref}/").content.decode()
    part = re.search(r'<section class="section" id="run-picture".*?</section>', html, re.S)[0]
    assert "Unknown — checking · next check" in part and f'datetime="{due}" data-t="due">at ' in part
    assert "<title>Unknown — checking: as it stands now</title>" in part
    assert html.count(f'datetime="{due}" data-t="due">at ') == 2, "in the picture and in the table"
    assert not re.search(r"\sstyle=|<script", part)


def next_look(run: Run) -> str:
    (effect,) = run.effects.all()
    return effect.next_look_at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def test_one_in_flight_counts_down_to_when_we_ask():
    run, token = new_run()
    sent = send(run, token)
    (item,) = contexts.effects(fresh(run))
    assert (item["effect"]["due"], item["effect"]["due_words"]) == (again(sent).answer_by, "we stop waiting for its answer")


def test_an_undo_stands_in_the_lane_of_what_it_undoes(refunding):
    run, effect = undo.landed()
    undo.undo(effect)
    (marks,) = [icons for name, icons in lanes(run).items() if "charge" in name]
    assert marks == ("circle-check", "undo-2")


def test_an_undo_that_waits_for_an_approver_says_so(refunding):
    run, effect = undo.landed()
    undo.ask(effect)
    (lane,) = [one for one in picture_of(run).lanes if one.lane.kind == "Action"]
    assert lane.lane.chip.text == "Undo waiting for approval"
    assert lane.marks[-1].chip.icon == "users" and lane.marks[-1].position is None


def test_children_and_clean_ups_have_their_lanes():
    run, token = new_run()
    step(run, token, "hold")
    cleaning.register(WORKER, run.pk, token, "release the hold", "release", {})
    child, _ = child_of(run, token, title="A part")
    assert "A part" in lanes(run) and "release the hold" not in lanes(run), "nothing is cleaned while it runs"
    cancel(run)
    assert lanes(run)["release the hold"] == ("clock",)


def test_a_step_stands_still_while_no_worker_holds_the_run():
    run, token = new_run()
    tell(send(run, token), "unknown")
    assert [one.lane.chip.text for one in picture_of(run).lanes if one.lane.kind == "Step"] == ["Running"]
    waiting.suspend(WORKER, run.pk, token, "evidence")
    assert [one.lane.chip.text for one in picture_of(run).lanes if one.lane.kind == "Step"] == ["Waiting"]


def test_a_large_run_is_drawn_small_and_some_of_every_kind_are_in_it():
    run, token = new_run()
    for number in range(40):
        sent = send(run, token, ref=f"PO-{number}", step=f"order {number}")
        tell(sent, "landed", external_id=f"S-{number}") if number != 20 else tell(sent, "unknown")
    now, effects, below = fresh(run), contexts.effects(fresh(run)), family.below(run)
    with CaptureQueriesContext(connection) as asked:
        shown = contexts.picture(now, effects, below)
    assert len(asked) == 2, "the steps and the records; nothing for each of them"
    assert len(shown.lanes) <= 8 + 5 and "PO-20" in str([one.lane.name for one in shown.lanes])
    assert shown.more == "And 35 more steps, 32 more actions, listed below."
    assert len(fragments.picture_html(fresh(run))) < 40_000


def test_a_step_that_starts_brings_the_picture_along_when_the_page_asks():
    run, token = new_run()
    client, version = person(), fresh(run).version
    step(run, token, "validate")
    asked = client.get(f"/runs/{run.ref}/doing?drawn={version}").content.decode()
    assert re.search(r'id="run-picture"[^>]* hx-swap-oob="outerMorph">', asked) and "validate" in asked
    assert "run-picture" not in client.get(f"/runs/{run.ref}/doing?drawn={fresh(run).version}").content.decode()
