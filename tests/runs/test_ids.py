import uuid

import pytest

from ledger import operations
from ledger.models import Effect
from runs import ids, models
from runs.models import Run
from tests.makers import assert_counters, new_run, send


def test_references_are_short_speakable_and_forgiving():
    ref = ids.new_ref("R")
    assert len(ref) == 12 and ref.startswith("R-")
    assert not set(ref[2:]) & set("ILOU")
    for typed in (ref, ref.lower(), ref.replace("-", ""), f" {ref[0]}-{ref[2:7]}-{ref[7:]} "):
        assert ids.parse_ref(typed, "R") == ref
    assert ids.parse_ref("r-oOiIlL1234", "R") == "R-0011111234"
    for wrong in ("", "R-", ref[:-1], ref + "0", "E" + ref[1:], "R-UUUUUUUUUU", "R-" + "é" * 10):
        assert ids.parse_ref(wrong, "R") is None


def test_uuids_are_ordered_and_parsed_in_any_form():
    made = [ids.new_id() for _ in range(100)]
    assert made == sorted(made)
    assert {one.version for one in made} == {7}
    assert ids.parse_uuid(str(made[0]).upper().replace("-", "")) == made[0]
    assert ids.parse_uuid("not one") is None


def test_an_operation_id_comes_of_run_step_and_ordinal_only():
    run = uuid.uuid4()
    made = {operations.operation_id(run, step, n) for step in ("a", "b", "a1") for n in (0, 1, 10)}
    assert len(made) == 9
    assert operations.operation_id(run, "a", 0) == operations.operation_id(run, "a", 0)
    assert operations.operation_id(run, "a", 0) != operations.operation_id(uuid.uuid4(), "a", 0)


def test_the_digest_does_not_depend_on_the_order_of_keys():
    assert ids.digest({"a": 1, "b": [1, 2]}) == ids.digest({"b": [1, 2], "a": 1})
    assert ids.digest({"a": 1}) != ids.digest({"a": "1"})
    assert ids.digest({"a": "ü"}) == ids.digest({"a": "\u00fc"})
    with pytest.raises(ValueError, match="JSON"):
        ids.digest(float("nan"))


def _clashing_once(monkeypatch, module, name, taken):
    real = ids.new_ref
    made = iter([taken])
    monkeypatch.setattr(module, name, lambda prefix: next(made, None) or real(prefix))


def test_a_reference_that_is_taken_is_made_again(database, monkeypatch):
    first, _ = new_run()
    _clashing_once(monkeypatch, models, "new_ref", first.ref)
    second, _ = new_run("w-2")
    assert second.ref != first.ref
    assert Run.objects.count() == 2
    assert_counters()


def test_an_effects_reference_too(database, monkeypatch):
    from ledger import models as ledger_models

    run, token = new_run()
    first = send(run, token)
    _clashing_once(monkeypatch, ledger_models, "new_ref", first.effect.ref)
    second = send(run, token, ref="PO-2", ordinal=1)
    assert second.kind == "sending"
    assert Effect.objects.count() == 2
    assert_counters()
