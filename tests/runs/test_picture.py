"""The picture of a run stands by the order of its records: whatever clocks say, what came before the cancel is left of it."""

from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runs import picture
from runs.models import Cleanup
from runs.picture import Lane, Record, Strand
from runs.states import STEP_STATES
from runs.vocabulary import CLEANUP_CHIPS, STEP_CHIPS

CHIP = STEP_CHIPS["done"]
AT = None  # no clock is asked


def drawn(records, cancel_position=None, subjects=("E-1",), group="effect"):
    lanes = [Lane("Action", subject, CHIP, (Strand(group, subject, CHIP, ends_with_run=group == "step"),)) for subject in subjects]
    run = SimpleNamespace(cancel_position=cancel_position)
    return picture.draw(run, lanes, [Record(seq, kind, subject, AT) for seq, kind, subject in records], "")


@given(
    st.lists(st.sampled_from(["effect.declared", "effect.sending", "effect.unknown", "effect.landed"]), min_size=1, max_size=30),
    st.data(),
)
def test_what_was_recorded_before_the_cancel_stands_left_of_it_and_the_rest_right(kinds, data):
    cancel = data.draw(st.integers(1, len(kinds) + 1))
    seqs = [seq if seq < cancel else seq + 1 for seq in range(1, len(kinds) + 1)]
    subjects = [f"E-{data.draw(st.integers(1, 5))}" for _ in kinds]
    events = sorted([*zip(seqs, kinds, subjects, strict=True), (cancel, "cancel.accepted", "")])
    shown = drawn(events, cancel, tuple(dict.fromkeys(subjects)))
    (rule,) = shown.rules
    assert (rule.kind, rule.text) == ("cancel", "cancel accepted")
    for lane in shown.lanes:
        for mark in lane.marks:
            if mark.position is None:
                assert mark.x == picture.NOW and mark.says.endswith("as it stands now")
            else:
                assert (mark.x < rule.x) == (mark.position < cancel)
                assert mark.says.endswith("before the cancel" if mark.position < cancel else "after the cancel")
        for bar in lane.bars:
            assert 0 < bar.x < bar.end <= picture.NOW
    places = sorted((mark.position, mark.x) for lane in shown.lanes for mark in lane.marks if mark.position)
    assert [x for _, x in places] == sorted(x for _, x in places)


def test_a_bar_says_what_went_on_and_the_mark_stands_where_it_ended():
    told = [(3, "effect.declared"), (5, "effect.sending"), (9, "effect.unknown"), (12, "effect.landed")]
    (lane,) = drawn([(seq, kind, "E-1") for seq, kind in told]).lanes
    assert [bar.phase for bar in lane.bars] == ["planned", "acting", "doubt"]
    assert [mark.position for mark in lane.marks] == [12] and lane.marks[0].x == lane.bars[-1].end


def test_what_is_not_settled_reaches_the_edge():
    (lane,) = drawn([(3, "effect.sending", "E-1"), (4, "effect.unknown", "E-1")]).lanes
    assert lane.bars[-1].end == lane.marks[0].x == picture.NOW


def test_a_step_that_never_ended_ends_with_its_run():
    (lane,) = drawn([(2, "step.started", "S"), (7, "run.cancelled", "")], group="step", subjects=("S",)).lanes
    assert lane.marks[0].position == 7


def test_a_step_that_never_ended_acts_no_longer_than_its_worker():
    told = [(2, "step.started", "S"), (5, "run.quiet", ""), (7, "run.cancelled", "")]
    (lane,) = drawn(told, group="step", subjects=("S",)).lanes
    assert lane.marks[0].position == 5


def test_a_step_and_a_cleanup_of_one_name_are_not_mixed_up():
    told = [(2, "step.started", "hold"), (3, "cleanup.registered", "hold"), (4, "step.finished", "hold"), (8, "cleanup.done", "hold")]
    (step,) = drawn(told, group="step", subjects=("hold",)).lanes
    (cleanup,) = drawn(told, group="cleanup", subjects=("hold",)).lanes
    assert step.marks[0].position == 4 and cleanup.marks[0].position == 8


@pytest.mark.parametrize(
    ("records", "title"),
    [
        ([], "At a glance"),
        ([(4, "run.quiet", "")], "At a glance"),
        ([(4, "cancel.accepted", "")], "Before and after the cancel"),
        ([(4, "terminate.accepted", "")], "Before and after the termination"),
    ],
)
def test_it_is_called_after_what_stopped_the_run(records, title):
    assert drawn(records, 4 if "after" in title else None).title == title


def test_every_state_of_a_step_and_of_a_cleanup_has_its_chip():
    assert set(STEP_CHIPS) == set(STEP_STATES)
    assert set(CLEANUP_CHIPS) == set(Cleanup.STATES)
