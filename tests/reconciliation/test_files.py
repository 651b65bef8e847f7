"""Files as evidence: kept with their hash, of few kinds, and handed out only as what they are."""

from __future__ import annotations

import hashlib
from dataclasses import replace

import pytest

from reconciliation import cases, files, findings
from reconciliation.evidence import Finding
from reconciliation.models import CaseEvent, CaseFile
from runs.errors import NotAllowed
from runs.models import Event
from tests.makers import OTHER, SUPPORT, WORKER, assert_counters, new_run, open_cases, refused, send, settle, sweep, tell

pytestmark = pytest.mark.usefixtures("database")
PNG = b"\x89PNG\r\n\x1a\n" + b"\x00" * 20


@pytest.fixture(autouse=True)
def folder(tmp_path, settings):
    storages = {**settings.STORAGES}
    storages["evidence"] = {**storages["evidence"], "OPTIONS": {**storages["evidence"]["OPTIONS"], "location": tmp_path / "evidence"}}
    settings.STORAGES = storages
    yield tmp_path / "evidence"
    assert_counters()


@pytest.fixture
def case(fake):
    fake.promise(lookup="none")
    tell(send(*new_run(), provider="fake"), "unknown")
    sweep()
    return open_cases()[0]


def keep(case, name="statement.png", raw=PNG, actor=SUPPORT):
    return files.keep(actor, case.pk, name, [raw])


def stored(folder):
    return [path for path in folder.rglob("*") if path.is_file()] if folder.exists() else []


def test_a_file_is_kept_with_its_hash_and_everybody_can_see_who_kept_it(case, folder):
    kept = keep(case, "C:\\secret\\..\\Statement March.png")
    assert (kept.name, kept.size, kept.sha256) == ("Statement March.png", len(PNG), hashlib.sha256(PNG).hexdigest())
    (path,) = stored(folder)
    assert path.read_bytes() == PNG and "Statement" not in str(path), "its name is no path of ours"
    assert CaseEvent.objects.get(case=case, kind="file").data["sha256"] == kept.sha256
    assert Event.objects.get(run=case.run, kind="case.file").actor_name == "Sam Support"
    assert files.read(case, str(kept.pk)) == (kept, PNG)


def test_a_finding_names_the_files_it_rests_on(case):
    kept = keep(case)
    settle(case, "happened", files=(str(kept.pk),))
    assert CaseEvent.objects.get(case=case, kind="settled").data["files"] == [str(kept.pk)]


def test_a_finding_cannot_name_a_file_of_another_case(case, fake):
    kept = keep(case)
    tell(send(*new_run("w-2"), provider="fake", ref="PO-2"), "unknown")
    sweep()
    other = open_cases(business_ref="PO-2")[0]
    for name in (str(kept.pk), "nonsense"):
        with refused("invalid") as told:
            settle(other, "happened", files=(name,))
        assert told.value.facts["field"] == "files"
    with refused("not_found"):
        files.read(other, str(kept.pk))


@pytest.mark.parametrize(
    ("name", "raw"),
    [
        ("page.html", b"<script>alert(1)</script>"),
        ("picture.svg", b"<svg onload='x'/>"),
        ("picture.png", b"<script>"),
        ("report.pdf", b"MZ\x90"),
        ("notes.txt", b"\xff\xfe\x00"),
        ("notes.txt", b"a\x00b"),
        ("noname", PNG),
        ("..", PNG),
        ("empty.png", b""),
    ],
)
def test_what_is_not_of_a_kept_kind_is_refused(case, folder, name, raw):
    with refused("invalid") as told:
        keep(case, name, raw)
    assert told.value.facts["field"] == "file"
    assert not stored(folder) and not CaseFile.objects.exists()


def test_what_is_too_large_is_refused_before_it_is_all_read(case, folder, settings):
    settings.EVIDENCE_BYTES_MAX = 100
    given = iter([PNG, b"x" * 100, b"never asked for"])
    with refused("invalid"):
        files.keep(SUPPORT, case.pk, "a.png", given)
    assert list(given) == [b"never asked for"] and not stored(folder)


def test_only_whoever_may_settle_it_now_keeps_a_file(case, folder):
    for actor in (WORKER, replace(SUPPORT, scopes=frozenset({"case:read"}))):
        with pytest.raises(NotAllowed):
            keep(case, actor=actor)
    cases.claim(SUPPORT, case.pk)
    with refused("claimed_by_other"):
        keep(case, actor=OTHER)
    settle(case, "happened")
    with refused("already_decided"):
        keep(case)
    assert not stored(folder), "and nothing is left lying about"


def test_the_same_bytes_are_the_same_file(case, folder):
    assert keep(case) == keep(case, "again.png")
    assert len(stored(folder)) == 1


def test_a_file_that_changed_on_the_disk_is_not_handed_out(case, folder):
    kept = keep(case)
    (path,) = stored(folder)
    path.chmod(0o600)
    path.write_bytes(PNG + b"!")
    with refused("invalid") as told:
        files.read(case, str(kept.pk))
    assert "changed" in told.value.detail
    path.unlink()
    with refused("not_found"):
        files.read(case, str(kept.pk))


def test_what_was_kept_is_never_rewritten(case):
    kept = keep(case)
    with pytest.raises(TypeError):
        kept.save()
    with pytest.raises(TypeError):
        kept.delete()


def test_files_stay_when_the_case_is_passed_on(case):
    keep(case)
    findings.pass_on(SUPPORT, case.pk, "See the screenshot.")
    findings.settle(OTHER, case.pk, Finding("happened", external_id="S-1"))
    assert [one["name"] for one in files.of(case)] == ["statement.png"]
