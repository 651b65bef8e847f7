"""The processes under test: that they start, mend and stop, since every fault test relies on it."""

import signal

import httpx
import psutil

from tests.world import World


def test_the_web_process_answers_and_knows_the_token(world: World) -> None:
    schema = f"{world.url}/api/schema/"
    known = httpx.get(schema, headers={"Authorization": f"Bearer {world.token}"}, trust_env=False)
    unknown = httpx.get(schema, headers={"Authorization": "Bearer cm_x_y"}, trust_env=False)
    assert (known.status_code, unknown.status_code) == (200, 401)
    assert "Bearer" in unknown.headers["WWW-Authenticate"]


def test_people_log_in_by_the_page(world: World) -> None:
    assert "sessionid" in world.log_in("auditor").cookies


def test_a_killed_server_is_there_again(world: World) -> None:
    pid = world.pid("web")
    world.kill("web")
    assert not psutil.pid_exists(pid)
    world.start("web")
    assert httpx.get(f"{world.url}/readyz", trust_env=False).status_code == 200


def test_what_a_test_killed_or_stopped_is_mended_after_it(world: World) -> None:
    world.kill("celery")
    world.signal("beat", signal.SIGSTOP)
    world.mend()
    assert psutil.Process(world.pid("beat")).status() != psutil.STATUS_STOPPED
    assert psutil.pid_exists(world.pid("celery"))


def test_every_process_stops_when_asked(world: World) -> None:
    agent = world.start_agent_worker()
    ended = {name: world.stop(name) for name in (agent, "beat", "celery", "web", "supplier")}
    assert all(code in {0, -signal.SIGTERM} for code in ended.values()), ended
