"""`manage.py doctor` on this suite's own database, and on settings that are wrong."""

from io import StringIO
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection


def said() -> str:
    out = StringIO()
    try:
        call_command("doctor", stdout=out)
    except SystemExit as end:
        assert end.code == 1
    return out.getvalue()


def test_it_finds_nothing_wrong_with_what_the_suite_stands_on(database: None) -> None:
    report = said()
    assert "migrations: 0 to apply" in report
    assert "role countermand_app" in report
    assert "!!" not in report.replace("!!  Chromium", "")


def test_it_names_a_provider_that_cannot_work(database: None, settings: Any) -> None:
    settings.PROVIDERS = {"shop": {"kind": "carrier-pigeon"}}
    assert "!!  provider shop" in said()


def test_it_says_which_broker_does_not_answer(database: None, settings: Any) -> None:
    settings.CELERY_BROKER_URL = "redis://127.0.0.1:9/0"
    assert "!!  no broker" in said()


def test_it_says_when_the_database_is_gone(database: None, monkeypatch: pytest.MonkeyPatch) -> None:
    connection.close()
    monkeypatch.setitem(connection.settings_dict, "HOST", "/nowhere")
    try:
        assert "!!  no database" in said()
    finally:
        connection.close()
