"""The verifier: an untouched history verifies; a changed row, a cut tail and a rewritten chain are each found and named."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest
from django.conf import settings as settings_of_django
from django.core.management import CommandError, call_command
from django.db import connection
from hypothesis import HealthCheck, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as some

from console.audit import chains, keeping
from console.audit.verifier import canonical, read_anchors
from reconciliation.models import Discrepancy
from runs import anchors, sealing, timeline
from runs.actors import system
from runs.models import Event
from tests.makers import cancel, new_run, send, step, tell

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def path(tmp_path, settings):
    settings.ANCHOR_FILE = str(tmp_path / "anchors.jsonl")
    return tmp_path / "anchors.jsonl"


@pytest.fixture
def run(path):
    """A run whose history is sealed and anchored, among others."""
    new_run("w-9")
    run, token = new_run()
    tell(send(run, token), "landed")
    for number in range(3):
        timeline.append_system("test.said", system("tester"), f"word {number}", {"n": 1.50, "é": '"\n\x01', "big": 10**30})
    sealing.seal_due()
    anchors.keep()
    step(run, token, "more")
    cancel(run)
    timeline.append_system("test.said", system("tester"), "last word")
    sealing.seal_due()
    anchors.keep()
    return run


@pytest.fixture
def owner(owner_connection):
    """The owner, past the triggers."""
    owner_connection.execute("SET session_replication_role = replica")
    return owner_connection


def verify(path=None):
    """What is bad, and how the whole was told."""
    kept = read_anchors(path.open()) if path else None
    return [*(kept.bad if kept else []), *map(str, chains.verify_all(kept).bad)]


def reseal(owner):
    """What an owner who covers their tracks does: every seal is made anew."""
    owner.execute("DELETE FROM runs_seal")
    owner.execute("DELETE FROM runs_sealplace")
    sealing.seal_due()


def test_an_untouched_history_verifies(run, path, capsys):
    assert verify(path) == []
    call_command("verify_chain")
    said = capsys.readouterr().out
    assert f"{Event.objects.count()} events" in said and "2 anchors" in said and "Every chain verifies." in said


CHANGES = [
    ("kind", "'effect.refused'"),
    ("subject", "'E-0'"),
    ("actor_type", "'system'"),
    ("actor_id", "'somebody'"),
    ("actor_name", "'Somebody Else'"),
    ("channel", "'web'"),
    ("data", """jsonb_set(data, '{attempt}', '2')"""),
    ("at", "at + interval '1 microsecond'"),
    ("tx", "(tx::text::bigint + 1)::text::xid8"),
]


@pytest.mark.parametrize(("column", "value"), CHANGES, ids=[column for column, _ in CHANGES])
def test_a_changed_row_is_named(run, path, owner, column, value):
    event = Event.objects.get(run=run, kind="effect.landed")
    owner.execute(f"UPDATE runs_event SET {column} = {value} WHERE id = %s", (event.pk,))
    assert verify() == [f"{run.pk}: event {event.seq} (row {event.pk} of runs_event): is not what was sealed"]


def test_a_changed_row_of_the_system_stream_is_named(run, owner):
    event = Event.objects.get(subject="word 1")
    owner.execute("UPDATE runs_event SET actor_name = 'x' WHERE id = %s", (event.pk,))
    (found,) = verify()
    assert found.startswith("system: ") and f"row {event.pk} of runs_event" in found


@pytest.mark.parametrize("subject", ["word 0", "word 1", "last word"])
def test_a_row_that_is_gone_is_missed(run, owner, subject):
    owner.execute("DELETE FROM runs_event WHERE subject = %s", (subject,))
    (found,) = verify()
    assert found.startswith("system: event ") and "missing" in found


@pytest.mark.parametrize("place", [1, 3])
def test_a_row_that_is_gone_from_a_run_is_missed(run, owner, place):
    owner.execute("DELETE FROM runs_event WHERE run_id = %s AND seq = %s", (run.pk, place))
    assert verify() == [f"{run.pk}: event {place}: is missing"]


def test_a_cut_tail_is_found_by_the_seals_and_without_them_by_the_anchors(run, path, owner):
    last = Event.objects.filter(run=run).count()
    owner.execute("DELETE FROM runs_event WHERE run_id = %s AND seq > 4", (run.pk,))
    assert verify() == [f"{run.pk}: event 5: was sealed, and is missing"]
    reseal(owner)
    assert verify() == []
    assert verify(path) == [f"{run.pk}: event 5: is missing: the chain was anchored up to event {last}"]


def test_a_run_that_is_gone_altogether_is_found_by_the_anchors(run, path, owner):
    for table in ("runs_event", "runs_seal"):
        owner.execute(f"DELETE FROM {table} WHERE run_id = %s", (run.pk,))
    assert verify() == []
    (found,) = verify(path)
    assert found.startswith(f"{run.pk}: event 1: is missing: the chain was anchored")


def test_a_rewritten_chain_is_found_by_the_anchors(run, path, owner):
    event = Event.objects.get(run=run, kind="cancel.accepted")
    anchored = max(place for stream, place, _ in json.loads(path.read_text().splitlines()[0])["heads"] if stream == str(run.pk))
    assert event.seq > anchored
    owner.execute("UPDATE runs_event SET actor_name = 'Somebody Else' WHERE id = %s", (event.pk,))
    reseal(owner)
    assert verify() == []
    (found,) = verify(path)
    assert found.startswith(f"{run.pk}: event {anchored + 1}: or one up to ") and "the chain was rewritten" in found


def test_a_row_that_slipped_in_is_found(run, owner):
    owner.execute(
        "INSERT INTO runs_event (tx, kind, subject, actor_type, actor_id, actor_name, channel, data)"
        " SELECT tx, 'people.signed_in', 'x', 'person', '1', 'x', '', '{}' FROM runs_event WHERE subject = 'word 1'"
    )
    (found,) = verify()
    assert "slipped in" in found


def test_a_seal_that_was_made_up_is_found(run, owner):
    owner.execute("UPDATE runs_seal SET previous = repeat('0', 64) WHERE run_id = %s AND first > 1", (run.pk,))
    (found,) = verify()
    assert "does not follow the seal before it" in found


def test_anchors_that_were_edited_are_found(run, path):
    whole = path.read_text()
    path.write_text(whole.replace('"number":2', '"number":3'))
    assert "line 2 of the anchors does not follow" in verify(path)[0]
    path.write_text(whole.splitlines()[1] + "\n")
    assert "line 1 of the anchors does not follow" in verify(path)[0]
    path.write_text(whole + "{")
    assert "line 3 of the anchors cannot be read" in verify(path)[0]


def test_the_command_fails_and_says_where(run, path, owner, capsys):
    event = Event.objects.get(subject="word 2")
    owner.execute("UPDATE runs_event SET kind = 'x' WHERE id = %s", (event.pk,))
    with pytest.raises(CommandError, match="1 chains or files do not verify"):
        call_command("verify_chain")
    assert f"row {event.pk} of runs_event" in capsys.readouterr().out
    with pytest.raises(CommandError):
        call_command("verify_chain", anchors=str(path.with_name("elsewhere")))
    assert "There is no anchor file" in capsys.readouterr().out


def test_events_that_have_waited_too_long_are_a_finding(run, owner):
    step_run, token = new_run("w-8")
    assert verify() == []
    owner.execute("UPDATE runs_event SET at = at - interval '2 hours' WHERE run_id = %s", (step_run.pk,))
    (found,) = verify()
    assert "are not sealed" in found


def test_the_daily_verification_raises_the_banner_and_takes_it_down(run, path, owner):
    event = Event.objects.get(run=run, kind="effect.landed")
    assert keeping.verify_chains().bad == [] and not Discrepancy.objects.exists()
    owner.execute("UPDATE runs_event SET actor_name = 'x' WHERE id = %s", (event.pk,))
    keeping.verify_chains()
    assert Discrepancy.objects.get(cleared_at=None).run == run
    owner.execute("UPDATE runs_event SET actor_name = %s WHERE id = %s", (event.actor_name, event.pk))
    keeping.verify_chains()
    assert not Discrepancy.objects.filter(cleared_at=None).exists()


JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-(10**30), 10**30) | some.floats(allow_nan=False, allow_infinity=False)
    | some.text(some.characters(exclude_characters="\x00", exclude_categories=["Cs"])),
    lambda inner: some.lists(inner, max_size=4)
    | some.dictionaries(some.text(some.characters(exclude_characters="\x00", exclude_categories=["Cs"]), max_size=5), inner, max_size=5),
    max_leaves=12,
)  # fmt: skip


@hypothesis_settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(JSON)
def test_the_verifiers_own_form_is_the_databases(value):
    with connection.cursor() as cursor:
        cursor.execute(
            f"SELECT {sealing.LINE}, e.data::text, e.at FROM (SELECT 7::bigint AS id, NULL::uuid AS run_id, NULL::bigint AS seq,"
            " '9'::xid8 AS tx, 'k' AS kind, 's' AS subject, 'a' AS actor_type, 'b' AS actor_id, 'c' AS actor_name, '' AS channel,"
            " %s::jsonb AS data, clock_timestamp() AS at) e",
            (json.dumps(value),),
        )
        line, data, at = cursor.fetchone()
    row = {"id": 7, "run": None, "seq": None, "tx": "9", "kind": "k", "subject": "s", "actor_type": "a", "actor_id": "b"}
    assert canonical(row | {"actor_name": "c", "channel": "", "data": data, "at": at}) == line.encode()


def test_the_script_of_the_docs_verifies_an_export_by_itself(run, path, owner, tmp_path):
    script = tmp_path / "verify.py"
    script.write_text((settings_of_django.BASE_DIR / "docs" / "audit.md").read_text().split("```python\n")[1].split("```")[0])

    def outcome():
        with connection.cursor() as cursor:
            cursor.execute(f"SELECT {sealing.LINE} FROM runs_event e ORDER BY at, id")
            export = tmp_path / "events.jsonl"
            export.write_text("".join(f"{line}\n" for (line,) in cursor.fetchall()))
        done = subprocess.run([sys.executable, "-I", script, export, path], capture_output=True, text=True)
        return done.returncode, done.stdout

    assert outcome()[0] == 0
    assert outcome()[1].endswith(" 0 bad\n") and " 5 anchored heads" in outcome()[1]
    event = Event.objects.get(run=run, kind="effect.landed")
    owner.execute("UPDATE runs_event SET actor_name = 'x' WHERE id = %s", (event.pk,))
    reseal(owner)
    code, said = outcome()
    assert code == 1 and f"{run.pk}: event " in said and "is not what was anchored" in said
