"""The supplier's HTTP doors: its order API, and the control port that makes it misbehave.

A fault never changes what the log says: every arrival, execution and refusal is in it, in order.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from starlette.applications import Starlette
from starlette.background import BackgroundTask
from starlette.requests import Request
from starlette.responses import HTMLResponse, JSONResponse, Response
from starlette.routing import Route

from examples.supplier.controls import FIELDS as CONTROL_FIELDS
from examples.supplier.controls import Controls
from examples.supplier.orders import Refused, read_object, read_order
from examples.supplier.store import Store
from examples.supplier.webhooks import deliver_for_ever

_BAD_GATEWAY = "<html><body><h1>502 Bad Gateway</h1><p>nginx</p></body></html>"
_MAINTENANCE = {"status": "maintenance", "message": "We will be back shortly.", "orders": []}
LOG_WAIT_S_MAX = 30.0


@dataclass
class World:
    """Everything one supplier process has: store, controls, webhook target, and a way to cut a client off."""

    store: Store
    webhook_url: str | None = None
    webhook_secret: str | None = None
    controls: Controls = field(default_factory=Controls)
    executing: set[asyncio.Task[Any] | None] = field(default_factory=set)
    telling: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held while events are on their way to somebody."""
    cut: Callable[[Any], None] = lambda client: None


@dataclass(frozen=True)
class Call:
    """One request to execute something, with what identifies it."""

    request: Request
    world: World
    door: str
    reference: str
    key: str | None
    attempt: str | None

    def note(self, kind: str, **detail: Any) -> None:
        self.world.store.note(kind, self.reference, detail.pop("order_id", None), self.key, self.attempt, **detail)

    async def gone(self) -> None:
        """Return when the client has hung up."""
        while (await self.request.receive())["type"] != "http.disconnect":
            pass


def build(world: World) -> Starlette:
    """The ASGI application over one world."""

    @asynccontextmanager
    async def lifespan(app: Starlette) -> AsyncIterator[None]:
        postman = None
        if world.webhook_url and world.webhook_secret:
            postman = asyncio.create_task(deliver_for_ever(world.store, world.webhook_url, world.webhook_secret, world.telling))
        yield
        if postman:
            postman.cancel()
        world.store.close()

    routes = [
        Route("/orders", create_order, methods=["POST"]),
        Route("/orders", list_orders, methods=["GET"]),
        Route("/orders/{order_id}", get_order, methods=["GET"]),
        Route("/orders/{order_id}/cancellation", cancel_order, methods=["POST"]),
        Route("/control", control, methods=["GET", "POST"]),
        Route("/release", release, methods=["POST"]),
        Route("/reset", reset, methods=["POST"]),
        Route("/log", log, methods=["GET"]),
        Route("/healthz", healthy, methods=["GET"]),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={Refused: _problem})
    app.state.world = world
    return app


def _problem(request: Request, error: Exception) -> Response:
    assert isinstance(error, Refused)  # noqa: S101 -- registered for Refused only
    body = {"status": error.status, "code": error.code, "title": error.code.replace("_", " "), "detail": error.detail}
    return JSONResponse(body, error.status, media_type="application/problem+json")


# -- executing


async def create_order(request: Request) -> Response:
    """POST /orders."""
    world: World = request.app.state.world
    raw, key, attempt = await request.body(), request.headers.get("idempotency-key"), request.headers.get("x-attempt")
    try:
        order = read_order(raw)
    except Refused as error:
        world.store.note("refusal", None, None, key, attempt, code=error.code)
        raise
    call = Call(request, world, "create", order.reference, key, attempt)

    def execute() -> tuple[dict[str, Any], bool]:
        careless = world.controls.take("careless", "create", order.reference) is not None
        return world.store.accept(order, key=key, attempt=attempt, careless=careless)

    return await _execute(call, execute, "order.accepted", 201)


async def cancel_order(request: Request) -> Response:
    """POST /orders/{id}/cancellation: the supplier's own undo."""
    world: World = request.app.state.world
    order_id = request.path_params["order_id"]
    read_object(await request.body(), {"reason"})
    key, attempt = request.headers.get("idempotency-key"), request.headers.get("x-attempt")
    reference = world.store.order(order_id)["reference"]
    call = Call(request, world, "cancel", reference, key, attempt)
    return await _execute(call, lambda: world.store.cancel(order_id, key=key, attempt=attempt), "order.cancelled", 200)


async def _execute(call: Call, execute: Callable[[], tuple[dict[str, Any], bool]], event: str, status: int) -> Response:
    call.world.executing.add(task := asyncio.current_task())
    try:
        return await _past_faults(call, execute, event, status)
    finally:
        call.world.executing.discard(task)


async def _past_faults(call: Call, execute: Callable[[], tuple[dict[str, Any], bool]], event: str, status: int) -> Response:
    """Take a request past every armed fault, in the order a real one would meet them."""
    call.note("arrival", door=call.door)
    done: list[tuple[dict[str, Any], bool]] = []

    def run() -> None:
        done.append(execute())
        _owe_webhook(call, event, *done[0])

    if broken := _broken(call, run):
        return broken
    if call.world.controls.take("refuse", call.door, call.reference):
        call.note("refusal", code="refused")
        raise Refused(422, "refused", "The supplier does not accept this. Nothing was done.")
    if not await _held(call, "before_accept"):
        return Response(status_code=499)
    run()
    if not await _held(call, "after_accept"):
        call.note("unanswered")
        return Response(status_code=499)
    if call.world.controls.take("drop_response", call.door, call.reference):
        return await _drop(call)
    return _answer(call, *done[0], status)


def _broken(call: Call, run: Callable[[], None]) -> Response | None:
    for point in ("http_502", "maintenance_200"):
        if fault := call.world.controls.take(point, call.door, call.reference):
            if fault.executes:
                run()
            call.note("answer", status=502 if point == "http_502" else 200, fault=point)
            return HTMLResponse(_BAD_GATEWAY, 502) if point == "http_502" else JSONResponse(_MAINTENANCE)
    return None


async def _held(call: Call, point: str) -> bool:
    """Hold here if told to; False when nobody waits for an answer any more and nothing else should be done."""
    fault = call.world.controls.take(point, call.door, call.reference)
    if fault is None:
        return True
    call.note("held", point=point)
    why, client_there = await call.world.controls.hold(fault, call.reference, call.gone)
    go_on = why != "reset" and (client_there or (point == "before_accept" and fault.commit_after_client_gone))
    kind = "released" if go_on or point == "after_accept" else "abandoned"
    call.note(kind, point=point, why=why, client_there=client_there)
    return go_on


async def _drop(call: Call) -> Response:
    call.note("dropped")
    call.world.cut(call.request.scope["client"])
    await call.gone()
    return Response(status_code=499)


def _answer(call: Call, order: dict[str, Any], replayed: bool, status: int) -> Response:
    announce = call.world.controls.take("after_respond", call.door, call.reference)

    async def sent() -> None:
        call.note("answer", order_id=order["id"], status=status)
        if announce:
            call.note("after_respond", order_id=order["id"])

    headers = {"idempotent-replayed": "true"} if replayed else {}
    return JSONResponse(order, 200 if replayed else status, headers=headers, background=BackgroundTask(sent))


def _owe_webhook(call: Call, event: str, order: dict[str, Any], replayed: bool) -> None:
    if replayed or not call.world.webhook_url:
        return
    if call.world.controls.take("webhook_off", call.door, call.reference):
        return call.note("webhook_off", event=event)
    delay = call.world.controls.take("webhook_delay", call.door, call.reference)
    return call.world.store.queue_webhook(event, order, delay_s=(delay.seconds or 0) if delay else 0)


# -- looking


async def list_orders(request: Request) -> Response:
    """GET /orders?reference=: every order under that reference; the answer names the reference it is about."""
    world: World = request.app.state.world
    reference = request.query_params.get("reference")
    if not reference:
        raise Refused(400, "reference_needed", "Say which orders: ?reference=…")
    if broken := _lookup_fault(world, reference):
        return broken
    orders = world.store.by_reference(reference, lag_s=_lag_s(world, reference))
    if world.controls.take("lookup_wrong_object", "look", reference):
        orders = [{**order, "reference": f"{reference}-OTHER"} for order in orders] or [_somebody_elses(reference)]
    world.store.note("look", reference, status=200, found=len(orders))
    return JSONResponse({"reference": reference, "orders": orders})


async def get_order(request: Request) -> Response:
    """GET /orders/{id}."""
    world: World = request.app.state.world
    order_id = request.path_params["order_id"]
    reference = world.store.order(order_id)["reference"]
    if broken := _lookup_fault(world, reference):
        return broken
    order = world.store.order(order_id, lag_s=_lag_s(world, reference))
    world.store.note("look", reference, order_id, status=200)
    return JSONResponse(order)


def _lookup_fault(world: World, reference: str) -> Response | None:
    answers: dict[str, Callable[[], Response]] = {
        "lookup_down": lambda: JSONResponse({"code": "down", "detail": "Service unavailable."}, 503),
        "lookup_unauthorized": lambda: JSONResponse({"code": "unauthorized", "detail": "Bad key."}, 401),
        "lookup_html": lambda: HTMLResponse("<html><body>Please sign in</body></html>"),
        "http_502": lambda: HTMLResponse(_BAD_GATEWAY, 502),
        "maintenance_200": lambda: JSONResponse(_MAINTENANCE),
    }
    for point, answer in answers.items():
        if world.controls.take(point, "look", reference):
            response = answer()
            world.store.note("look", reference, status=response.status_code, fault=point)
            return response
    return None


def _lag_s(world: World, reference: str) -> float:
    lag = world.controls.take("lookup_lag", "look", reference)
    return (lag.seconds or 0.0) if lag else 0.0


def _somebody_elses(reference: str) -> dict[str, Any]:
    return {
        "id": "SO-0000000000", "reference": f"{reference}-OTHER", "state": "accepted", "currency": "EUR",
        "total": "1.00", "lines": [], "idempotency_key": None, "accepted_at": "2026-01-01T00:00:00+00:00",
        "cancelled_at": None, "cancellation_id": None, "cancellation_key": None,
    }  # fmt: skip


# -- the control port


async def control(request: Request) -> Response:
    """GET: what is armed and held. POST: arm one control (`times: 0` disarms it)."""
    world: World = request.app.state.world
    if request.method == "POST":
        armed = world.controls.arm(read_object(await request.body(), CONTROL_FIELDS))
        world.store.note("control", armed.reference, point=armed.point)
    return JSONResponse(world.controls.shown())


async def release(request: Request) -> Response:
    """POST /release {point?, reference?}: let what is held go on."""
    world: World = request.app.state.world
    body = read_object(await request.body(), {"point", "reference"})
    return JSONResponse({"released": world.controls.release(**body)})


async def reset(request: Request) -> Response:
    """POST /reset {store?}: disarm everything; with `store: true` also forget every order and the log, once nothing is under way."""
    world: World = request.app.state.world
    body = read_object(await request.body(), {"store"})
    dropped = world.controls.reset()
    if body.get("store") is True:
        await asyncio.gather(*filter(None, world.executing), return_exceptions=True)
        async with world.telling:
            world.store.wipe()
    return JSONResponse({"dropped": dropped, "store_wiped": body.get("store") is True})


async def log(request: Request) -> Response:
    """GET /log?after=&reference=&kind=&wait_s=: what happened, oldest first; waits for the first line when asked to."""
    world: World = request.app.state.world
    ask = request.query_params
    try:
        after, wait_s = int(ask.get("after", "0")), float(ask.get("wait_s", "0"))
    except ValueError:
        raise Refused(400, "bad_query", "after and wait_s are numbers.") from None
    narrow = {"after": after, "reference": ask.get("reference"), "kind": ask.get("kind")}
    lines = await world.store.log_wait(min(max(wait_s, 0.0), LOG_WAIT_S_MAX), **narrow)
    return JSONResponse({"entries": lines, "next_after": lines[-1]["seq"] if lines else after})


async def healthy(request: Request) -> Response:
    """GET /healthz."""
    return JSONResponse({"status": "ok"})
