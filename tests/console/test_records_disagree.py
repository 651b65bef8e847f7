"""The banner on every page of the shell while records disagree."""

from __future__ import annotations

import pytest

from reconciliation import integrity
from tests.console.browsing import person, text
from tests.makers import new_run

pytestmark = pytest.mark.usefixtures("database")


@pytest.mark.parametrize("path", ["/runs/", "/cases/", "/approvals/", "/help/", "/runs/{ref}/"])
def test_every_page_says_it(path, owner_connection):
    run, _ = new_run()
    owner_connection.execute("UPDATE runs_run SET landed = 7 WHERE id = %s", (run.pk,))
    client = person()
    assert "Records disagree" not in text(client.get(path.format(ref=run.ref)))
    integrity.check([run.pk])
    said = text(client.get(path.format(ref=run.ref)))
    assert f"Records disagree: the counts of {run.ref}" in said and "Tell your engineers (INC-" in said


def test_who_is_not_signed_in_is_not_told(owner_connection, client):
    run, _ = new_run()
    owner_connection.execute("UPDATE runs_run SET landed = 7 WHERE id = %s", (run.pk,))
    integrity.check([run.pk])
    assert "Records disagree" not in text(client.get("/accounts/login/"))
