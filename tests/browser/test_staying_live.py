"""A page that loses its socket says so, and is right again as soon as it can be: cut, muted, refused, not allowed, the server started
again, the tab hidden and shown, the computer asleep. Each time something happened meanwhile."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from tests.browser.conftest import SignIn
from tests.world import World

pytestmark = pytest.mark.browser

RIGHT_MS = 10_000  # a loaded machine takes its time; the page repairs itself by chance only after half a minute
LATER_S = 40  # more than the silence after which a page says that it is not live
BANNER = "This page stopped updating at"


class Net:
    """Between a page and the server: what stands between them can be cut, muted and refused."""

    def __init__(self, page: Page) -> None:
        self.open: list[tuple[WebSocketRoute, WebSocketRoute]] = []
        self.muted, self.refuses, self.tried = False, 0, 0
        page.route_web_socket("**/ws/ui/", self._connect)

    def _connect(self, here: WebSocketRoute) -> None:
        self.tried += 1
        if self.refuses:
            here.close(code=self.refuses)
            return
        server = here.connect_to_server()
        server.on_message(lambda message: None if self.muted else here.send(message))
        here.on_message(lambda message: None if self.muted else server.send(message))
        self.open.append((here, server))

    def cut(self) -> None:
        for here, server in self.open:
            server.close()
            here.close(code=1012)
        self.open.clear()


def new_run(world: World) -> str:
    return str(world.api.post("/runs", json={"agent": "refunds", "title": "Refund", "input": {}}).json()["ref"])


def happens(world: World, ref: str) -> None:
    """Something that a page of this run must show: it is cancelled."""
    world.api.post(f"/runs/{ref}/cancellation", json={"mode": "cancel"}).raise_for_status()


def is_right(page: Page, timeout_ms: float = RIGHT_MS) -> None:
    expect(page.locator(".chip-big")).to_have_text("Cancelled", timeout=timeout_ms)
    expect(page.locator("#conn")).to_have_text("Live", timeout=timeout_ms)
    expect(page.locator("#not-live")).to_be_hidden()


@pytest.fixture
def watching(world: World, sign_in: SignIn) -> Callable[..., tuple[Page, Net, str]]:
    """A page of a scheduled run, live; with a clock of its own when time is to pass."""

    def watch(clock: bool = False, **options: Any) -> tuple[Page, Net, str]:
        ref = new_run(world)
        page = sign_in(**options)
        net = Net(page)
        if clock:
            page.clock.install()
        page.goto(f"{world.url}/runs/{ref}/")
        expect(page.locator("#conn")).to_have_text("Live")
        expect(page.locator(".chip-big")).to_have_text("Scheduled")
        return page, net, ref

    return watch


def test_a_socket_that_is_cut(world: World, watching: Callable[..., tuple[Page, Net, str]]) -> None:
    page, net, ref = watching()
    net.refuses = 1012
    net.cut()
    expect(page.locator("#conn")).to_have_text("Reconnecting…")
    happens(world, ref)
    net.refuses = 0
    is_right(page)
    assert len(net.open) == 1


def test_a_socket_that_falls_silent(world: World, watching: Callable[..., tuple[Page, Net, str]]) -> None:
    page, net, ref = watching(clock=True)
    net.muted = True
    happens(world, ref)
    page.clock.run_for(LATER_S * 1000)
    expect(page.locator("#not-live")).to_contain_text(BANNER)
    expect(page.locator("#conn")).to_contain_text("Not live since")
    expect(page.locator("#alerts")).to_have_text("This page stopped updating.")
    expect(page.locator(".chip-big")).to_have_text("Scheduled")
    expect(page.locator("#run-head [data-cancel]")).to_be_visible()  # the server checks every act anyway
    net.muted = False
    page.click("#not-live [data-retry]")
    is_right(page)


def test_sockets_that_are_refused(world: World, watching: Callable[..., tuple[Page, Net, str]]) -> None:
    page, net, ref = watching()
    net.refuses = 1011
    net.cut()
    happens(world, ref)
    expect(page.locator("#conn")).to_have_text("Updating every 15 seconds")
    expect(page.locator(".chip-big")).to_have_text("Cancelled")  # by asking, without any socket
    net.refuses = 0
    is_right(page)


@pytest.mark.parametrize(("code", "banner", "says"), [(4403, "#not-allowed", "Not live"), (4401, "#signed-out", "Signed out")])
def test_who_may_not_look_any_more_is_told_and_asks_no_more(
    watching: Callable[..., tuple[Page, Net, str]], code: int, banner: str, says: str
) -> None:
    page, net, _ = watching(clock=True)
    net.refuses = code
    net.cut()
    expect(page.locator(banner)).to_be_visible()
    expect(page.locator("#conn")).to_have_text(says)
    tried = net.tried
    page.clock.run_for(LATER_S * 1000)
    assert net.tried == tried


def test_the_server_is_started_again(world: World, sign_in: SignIn) -> None:
    ref = new_run(world)
    page = sign_in()
    page.goto(f"{world.url}/runs/{ref}/")
    expect(page.locator("#conn")).to_have_text("Live")
    world.stop("web")
    expect(page.locator("#conn")).to_have_text("Reconnecting…")
    world.start("web")
    happens(world, ref)
    is_right(page)


def show(page: Page, hidden: bool) -> None:
    page.evaluate(
        "(hidden) => { Object.defineProperty(document, 'hidden', {configurable: true, get: () => hidden});"
        " document.dispatchEvent(new Event('visibilitychange')); }",
        hidden,
    )


def test_a_tab_hidden_and_shown_fifty_times_has_one_socket(world: World, watching: Callable[..., tuple[Page, Net, str]]) -> None:
    page, net, ref = watching()
    for _ in range(50):
        show(page, True)
        show(page, False)
    happens(world, ref)
    is_right(page)
    assert net.tried == 1 and len(net.open) == 1


def test_a_computer_that_slept_for_a_minute(world: World, watching: Callable[..., tuple[Page, Net, str]]) -> None:
    page, net, ref = watching(clock=True)
    net.muted = True  # whatever was under way when it fell asleep is lost, and the socket does not know
    happens(world, ref)
    net.muted = False  # before it wakes: what it asks at once must arrive
    page.clock.fast_forward(60_000)
    is_right(page)
    assert net.tried <= 2
