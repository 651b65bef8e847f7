"""The suite's own database: who the application is, and that one test leaves nothing to the next."""

import os
import subprocess
import sys
import threading

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, connections
from django.db.backends.postgresql.base import ServerBindingCursor

from console.roles import history_tables


def current_user() -> str:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_user")
        return str(cursor.fetchone()[0])


def test_tests_run_as_the_app_role(database: None) -> None:
    assert current_user() == "countermand_app"


def test_the_app_role_creates_nothing(database: None) -> None:
    with connection.cursor() as cursor, pytest.raises(Exception, match="permission denied"):
        cursor.execute("CREATE TABLE mine (id int)")


@pytest.mark.parametrize("turn", [1, 2])
def test_a_commit_of_one_test_is_not_seen_by_the_next(database: None, turn: int) -> None:
    assert not User.objects.exists()
    User.objects.create_user("someone")

    def seen_elsewhere() -> None:
        seen.append(User.objects.count())
        connections.close_all()

    seen: list[int] = []
    thread = threading.Thread(target=seen_elsewhere)
    thread.start()
    thread.join()
    assert seen == [1]


@pytest.mark.django_db(transaction=True)
def test_the_mark_of_pytest_django_is_the_same_database() -> None:
    assert current_user() == "countermand_app"
    Group.objects.count()


def test_the_connection_is_set_up_for_the_hot_paths(database: None) -> None:
    with connection.cursor() as cursor:
        cursor.execute("SELECT current_setting('idle_in_transaction_session_timeout'), %s::int", [1])
        assert cursor.fetchone() == ("2s", 1)
    assert connection.connection.prepare_threshold == 5
    assert connection.connection.cursor_factory is ServerBindingCursor
    assert connection.settings_dict["ATOMIC_REQUESTS"] is False


def test_only_the_web_process_pools_its_connections(database: None) -> None:
    say = "import {module}; from django.conf import settings; print('pool' in settings.DATABASES['default']['OPTIONS'])"
    environment = {**os.environ, "DJANGO_SETTINGS_MODULE": "console.settings"}
    environment.pop("DATABASE_POOL_MAX", None)  # a test that imported console.asgi has set it for this process
    pooled = {
        module: subprocess.run(
            [sys.executable, "-c", say.format(module=module)],
            env=environment, capture_output=True, text=True, check=True,
        ).stdout.strip()
        for module in ("console.asgi", "console.celery")
    }  # fmt: skip
    assert pooled == {"console.asgi": "True", "console.celery": "False"}


def test_history_is_added_to_and_never_changed(database: None) -> None:
    assert history_tables()
    for table in history_tables():
        for act in ("UPDATE", "DELETE", "TRUNCATE"):
            with connection.cursor() as cursor:
                cursor.execute("SELECT has_table_privilege(%s, %s)", [table, act])
                assert cursor.fetchone() == (False,), f"the app role may {act} {table}"
