"""Settings from the environment fail loudly and say which one."""

import pytest
from django.core.exceptions import ImproperlyConfigured

from console import env


@pytest.mark.parametrize(
    ("reader", "value"),
    [
        (env.text, ""),
        (env.flag, "perhaps"),
        (lambda name: env.number(name, 1), "many"),
        (lambda name: env.number(name, 1), "-1"),
        (env.json_object, "{"),
        (env.json_object, "[]"),
        (env.json_object, "@/nowhere.json"),
        (env.database, "sqlite:///db"),
        (env.database, "postgresql://host"),
        (env.database, "postgresql://host/db?no_such_option=1"),
    ],
)
def test_a_bad_value_is_named(monkeypatch: pytest.MonkeyPatch, reader: object, value: str) -> None:
    monkeypatch.setenv("SOME_SETTING", value)
    with pytest.raises(ImproperlyConfigured, match="SOME_SETTING"):
        reader("SOME_SETTING")  # type: ignore[operator]


def test_a_database_url_keeps_what_libpq_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SOME_SETTING", "postgresql://me:p%40ss@/db?host=/run/pg&sslmode=require")
    database = env.database("SOME_SETTING")
    assert (database["USER"], database["PASSWORD"], database["HOST"], database["NAME"]) == ("me", "p@ss", "/run/pg", "db")
    assert database["OPTIONS"] == {"sslmode": "require"}
