"""The suite's own database: who the application is, and that one test leaves nothing to the next."""

import threading

import pytest
from django.contrib.auth.models import Group, User
from django.db import connection, connections


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
