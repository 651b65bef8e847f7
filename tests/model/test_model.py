"""The model of stopping and sending: what must hold holds in every state, and each removed rule is missed (see `send.pml`)."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.model import spin
from tests.model.claims import CLAIMS, Claim


@pytest.fixture(scope="module")
def work(tmp_path_factory: pytest.TempPathFactory) -> Path:
    assert not spin.missing(), spin.missing()
    return tmp_path_factory.mktemp("model")


@pytest.mark.parametrize("claim", CLAIMS, ids=str)
def test_the_model_answers_as_it_must(claim: Claim, work: Path) -> None:
    """With two attempts; `make model` goes to three."""
    found = spin.check(claim, attempts=2, work=work)
    assert found.holds == claim.holds, f"{claim.says}\n" + "\n".join(found.story)
    assert found.holds or found.story
