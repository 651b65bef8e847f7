"""A page that loses its socket says so, and is right again within two seconds of the moment when it can be: cut, muted, refused, the
server started again, the tab hidden and shown, the computer asleep. Each time something happened meanwhile."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import SignIn
from tests.browser.line import Line
from tests.flows.driver import until
from tests.world import World

pytestmark = pytest.mark.browser

RIGHT_MS = 2000  # from the moment when the page could be right again to the moment when it is (ui.md, Targets)
LATER_S = 40  # more than the silence after which a page says that it is not live
BANNER = "This page stopped updating at"

# Installed before the page's own clock is replaced, so that it measures real time. It notes every sentence of the banner, too.
STOPWATCH = """(() => {
  const now = performance.now.bind(performance), text = (selector) => document.querySelector(selector)?.textContent.trim();
  const isRight = () => text(".chip-big") === "Cancelled" && text("#conn") === "Live" && document.querySelector("#not-live").hidden;
  let from = 0, right = 0;
  const look = () => {
    if (!document.querySelector("#not-live")?.hidden && text("#not-live")) stopwatch.said.push(text("#not-live"));
    if (from && !right && isRight()) right = now();
  };
  new MutationObserver(look).observe(document, { subtree: true, childList: true, characterData: true, attributes: true });
  window.stopwatch = {
    said: [],
    start() { from = now(); right = 0; look(); },
    took: () => right && right - from,
    async answers() { const since = now(); for (let i = 0; i < 3; i++) await (await fetch("/live/poll")).text(); return now() - since; },
  };
})()"""


def new_run(world: World) -> str:
    return str(world.api.post("/runs", json={"agent": "refunds", "title": "Refund", "input": {}}).json()["ref"])


def happens(world: World, ref: str) -> None:
    """Something that a page of this run must show: it is cancelled."""
    world.api.post(f"/runs/{ref}/cancellation", json={"mode": "cancel"}).raise_for_status()


def start(page: Page) -> None:
    """From now on the page could be right again."""
    page.evaluate("stopwatch.start()")


def is_right(page: Page) -> None:
    """It is right, and by its own share was so in time. To return takes three answers of the server: the handshake, what differs, the
    buttons. What those cost on this machine at this moment is not the page's doing, so it is measured beside it and taken off."""
    took: float = until(lambda: page.evaluate("stopwatch.took()"), "the page to be right")
    answers = page.evaluate("stopwatch.answers()")
    assert took - answers <= RIGHT_MS, f"right after {took:.0f} ms, of which three answers are {answers:.0f} ms"


@pytest.fixture
def line(world: World) -> Iterator[Line]:
    with Line(world.url) as line:
        yield line


Watching = Callable[..., tuple[Page, str]]


@pytest.fixture
def watching(world: World, line: Line, sign_in: SignIn) -> Watching:
    """A page of a scheduled run, live; with a clock of its own when time is to pass."""

    def watch(clock: bool = False, **options: Any) -> tuple[Page, str]:
        ref = new_run(world)
        page = sign_in(**options)
        page.add_init_script(STOPWATCH)
        if clock:
            page.clock.install()
        page.goto(f"{line.url}/runs/{ref}/")
        expect(page.locator("#conn")).to_have_text("Live")
        expect(page.locator(".chip-big")).to_have_text("Scheduled")
        return page, ref

    return watch


def test_a_socket_that_is_cut(world: World, line: Line, watching: Watching) -> None:
    page, ref = watching()
    line.refuses = True
    line.cut()
    expect(page.locator("#conn")).to_have_text("Reconnecting…")
    happens(world, ref)
    line.refuses = False
    start(page)
    is_right(page)
    assert line.open == 1


def test_a_line_that_falls_silent(world: World, line: Line, watching: Watching) -> None:
    page, ref = watching(clock=True)
    line.hold()
    happens(world, ref)
    page.clock.run_for(LATER_S * 1000)
    expect(page.locator("#not-live")).to_contain_text(BANNER)
    expect(page.locator("#conn")).to_contain_text("Not live since")
    expect(page.locator("#alerts")).to_have_text("This page stopped updating.")
    expect(page.locator(".chip-big")).to_have_text("Scheduled")
    expect(page.locator("#run-head [data-cancel]")).to_be_visible()  # the server checks every act anyway
    start(page)
    line.flow()
    is_right(page)


def test_a_silent_socket_is_tried_again_by_hand(world: World, line: Line, watching: Watching) -> None:
    page, ref = watching(clock=True)
    line.die()
    line.refuses = True
    happens(world, ref)
    page.clock.run_for(LATER_S * 1000)
    expect(page.locator("#not-live")).to_contain_text(BANNER)
    page.clock.pause_at(page.evaluate("Date.now() + 1000"))  # so that nothing but the click can mend it
    line.refuses = False
    start(page)
    page.click("#not-live [data-retry]")
    is_right(page)


def test_sockets_that_are_refused(world: World, line: Line, watching: Watching) -> None:
    page, ref = watching()
    line.refuses = True
    line.cut()
    expect(page.locator("#conn")).to_have_text("Updating every 15 seconds")
    happens(world, ref)
    expect(page.locator(".chip-big")).to_have_text("Cancelled")  # by asking, without any socket
    line.refuses = False
    start(page)
    is_right(page)


@pytest.mark.parametrize(("code", "banner", "says"), [(4403, "#not-allowed", "Not live"), (4401, "#signed-out", "Signed out")])
def test_who_may_not_look_any_more_is_told_and_asks_no_more(world: World, sign_in: SignIn, code: int, banner: str, says: str) -> None:
    page, tried = sign_in(), []
    page.clock.install()

    def refuse(socket: WebSocketRoute) -> None:
        tried.append(socket)
        socket.close(code=code)

    page.route_web_socket("**/ws/ui/", refuse)
    page.goto(f"{world.url}/runs/{new_run(world)}/")
    expect(page.locator(banner)).to_be_visible()
    expect(page.locator("#conn")).to_have_text(says)
    page.clock.run_for(LATER_S * 1000)
    assert len(tried) == 1


def test_the_server_is_started_again(world: World, watching: Watching) -> None:
    page, ref = watching()
    world.stop("web")
    expect(page.locator("#conn")).to_have_text("Reconnecting…")
    world.start("web")
    start(page)
    happens(world, ref)
    is_right(page)


def show(page: Page, hidden: bool) -> None:
    page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def test_a_tab_hidden_and_shown_fifty_times_has_one_socket(world: World, line: Line, watching: Watching) -> None:
    page, ref = watching()
    for _ in range(50):
        show(page, True)
        show(page, False)
    start(page)
    happens(world, ref)
    is_right(page)
    assert line.tried == 1 and line.open == 1


@pytest.mark.parametrize("slept_s", [20, 60])
def test_a_computer_that_slept(world: World, line: Line, watching: Watching, slept_s: int) -> None:
    """Its socket is dead and does not know, so no heartbeat can mend the page: only what it does itself on waking."""
    page, ref = watching(clock=True)
    line.die()
    happens(world, ref)
    start(page)
    page.clock.fast_forward(slept_s * 1000)
    is_right(page)
    said = page.evaluate("stopwatch.said")
    assert bool(said) == (slept_s == 60) and all(one.startswith(BANNER) for one in said), "what is older than 35 s is said to be"
    assert line.tried == 2
    until(lambda: line.open == 1, "the dead socket to be let go")
