"""The supplier simulator over real sockets: each control point does what it says, and the log tells the truth."""

import signal
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from queue import Queue
from typing import Any

import httpx
import pytest
from standardwebhooks import Webhook

from tests.examples.simulator import Simulator, order


def test_an_order_is_executed_once_per_idempotency_key(supplier: Simulator) -> None:
    first = supplier.place(order("PO-1"), "key-1")
    again = supplier.place(order("PO-1"), "key-1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert again.headers["idempotent-replayed"] == "true"
    assert supplier.place(order("PO-1", quantity=1, total="12.50"), "key-1").status_code == 409
    assert len(supplier.orders("PO-1")) == 1
    execution = supplier.log("PO-1", "execution")[0]
    assert (execution["idempotency_key"], execution["attempt"]) == ("key-1", "1")


def test_another_key_is_another_order_even_under_one_reference(supplier: Simulator) -> None:
    supplier.place(order("PO-2"), "key-2a")
    supplier.place(order("PO-2"), "key-2b")
    assert len(supplier.orders("PO-2")) == 2


def test_careless_ignores_the_key(supplier: Simulator) -> None:
    supplier.control("careless", reference="PO-3")
    for _ in range(2):
        assert supplier.place(order("PO-3"), "key-3").status_code == 201
    assert [found["idempotency_key"] for found in supplier.orders("PO-3")] == [None, None]
    assert [line["idempotency_key"] for line in supplier.log("PO-3", "execution")] == ["key-3", "key-3"], "what came is logged all the same"


@pytest.mark.parametrize(
    ("currency", "unit_price", "total"),
    [("JPY", "580", "5800"), ("KWD", "1.255", "12.550"), ("EUR", "12.50", "125.00")],
)
def test_amounts_are_exact_in_their_currency(supplier: Simulator, currency: str, unit_price: str, total: str) -> None:
    body = order(f"PO-4-{currency}", currency, unit_price, 10, total)
    assert supplier.place(body).json()["total"] == total


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"total": "125.01"}, 422, "total_does_not_add_up"),
        ({"total": 125.0}, 422, "bad_amount"),
        ({"total": "125.000"}, 201, None),
        ({"total": "125.001"}, 422, "bad_amount"),
        ({"total": "-125.00"}, 422, "bad_amount"),
        ({"currency": "eur"}, 422, "bad_amount"),
        ({"currency": "XYZ"}, 422, "bad_amount"),
        ({"currency": "XAU"}, 422, "bad_amount"),
        ({"reference": ""}, 422, "bad_reference"),
        ({"lines": []}, 422, "bad_lines"),
        ({"surprise": 1}, 400, "unknown_field"),
    ],
)
def test_bad_orders_are_refused_and_nothing_happens(supplier: Simulator, change: Any, status: int, code: str | None) -> None:
    answer = supplier.place({**order("PO-5"), **change})
    assert (answer.status_code, answer.json().get("code")) == (status, code)


@pytest.mark.parametrize("raw", [b"\xff\xfe", b"[]", b"{", b'{"total": NaN}'])
def test_a_body_that_is_no_json_object_is_refused(supplier: Simulator, raw: bytes) -> None:
    assert supplier.http.post("/orders", content=raw).status_code in (400, 422)


def test_before_accept_holds_with_nothing_done(supplier: Simulator) -> None:
    supplier.control("before_accept", until_released=True, reference="PO-6")
    answer = supplier.place_later(order("PO-6"), "key-6")
    supplier.wait_for("PO-6", "held")
    assert supplier.orders("PO-6") == []
    assert supplier.http.get("/control").json()["held"] == [{"point": "before_accept", "reference": "PO-6"}]
    assert supplier.release() == 1
    assert answer.result().status_code == 201
    assert supplier.place(order("PO-6"), "key-6b").status_code == 201  # released means disarmed


def test_a_held_request_whose_client_left_is_not_executed(supplier: Simulator) -> None:
    supplier.control("before_accept", until_released=True, reference="PO-7")
    with pytest.raises(httpx.ReadTimeout):
        supplier.place(order("PO-7"), "key-7", timeout=0.3)
    assert supplier.wait_for("PO-7", "abandoned")["detail"]["why"] == "client_gone"
    supplier.release()
    assert supplier.orders("PO-7") == []


def test_unless_it_commits_after_its_client_has_gone(supplier: Simulator) -> None:
    supplier.control("before_accept", until_released=True, commit_after_client_gone=True, reference="PO-8")
    with pytest.raises(httpx.ReadTimeout):
        supplier.place(order("PO-8"), "key-8", timeout=0.3)
    assert supplier.orders("PO-8") == []
    assert supplier.release(reference="PO-8") == 1
    supplier.wait_for("PO-8", "execution")
    assert len(supplier.orders("PO-8")) == 1


def test_after_accept_has_executed_and_only_the_answer_is_held(supplier: Simulator) -> None:
    supplier.control("after_accept", seconds=30, times=1)
    answer = supplier.place_later(order("PO-9"), "key-9")
    supplier.wait_for("PO-9", "held")
    assert len(supplier.orders("PO-9")) == 1
    assert not answer.done()
    assert supplier.release(point="after_accept") == 1
    assert answer.result().status_code == 201


def test_after_respond_only_announces(supplier: Simulator) -> None:
    supplier.control("after_respond", times=1)
    assert supplier.place(order("PO-10")).status_code == 201
    assert supplier.wait_for("PO-10", "after_respond")
    assert supplier.kinds("PO-10") == ["arrival", "execution", "answer", "after_respond"]


def test_drop_response_executes_and_hangs_up(supplier: Simulator) -> None:
    supplier.control("drop_response", times=1, reference="PO-11")
    with pytest.raises(httpx.RemoteProtocolError):
        supplier.place(order("PO-11"), "key-11")
    assert len(supplier.orders("PO-11")) == 1
    assert supplier.place(order("PO-11"), "key-11").headers["idempotent-replayed"] == "true"


def test_http_502_and_maintenance_do_nothing_unless_told_to(supplier: Simulator) -> None:
    supplier.control("http_502", times=1)
    assert supplier.place(order("PO-12")).status_code == 502
    supplier.control("maintenance_200", times=1, on=["create"])
    answer = supplier.place(order("PO-12"))
    assert (answer.status_code, answer.json()["status"]) == (200, "maintenance")
    assert supplier.orders("PO-12") == []
    supplier.control("http_502", times=1, executes=True)
    assert supplier.place(order("PO-12")).status_code == 502
    assert len(supplier.orders("PO-12")) == 1


def test_refuse_is_a_definite_no(supplier: Simulator) -> None:
    supplier.control("refuse", times=1, reference="PO-13")
    answer = supplier.place(order("PO-13"))
    assert (answer.status_code, answer.json()["code"]) == (422, "refused")
    assert supplier.orders("PO-13") == []


def test_a_control_aimed_at_one_reference_leaves_others_alone(supplier: Simulator) -> None:
    supplier.control("refuse", reference="PO-14")
    assert supplier.place(order("PO-14-OTHER")).status_code == 201
    assert supplier.place(order("PO-14")).status_code == 422
    supplier.control("refuse", reference="PO-14", times=0)
    assert supplier.place(order("PO-14")).status_code == 201


def test_lookups_lag_go_down_and_go_wrong(supplier: Simulator) -> None:
    placed = supplier.place(order("PO-15")).json()
    supplier.control("lookup_lag", seconds=60, reference="PO-15")
    assert supplier.orders("PO-15") == []
    assert supplier.http.get(f"/orders/{placed['id']}").status_code == 404
    supplier.http.post("/reset")
    assert supplier.orders("PO-15") == [placed]
    for point, status in (("lookup_down", 503), ("lookup_unauthorized", 401), ("lookup_html", 200)):
        supplier.control(point, times=1)
        assert supplier.http.get("/orders", params={"reference": "PO-15"}).status_code == status
    supplier.control("lookup_wrong_object", times=1)
    assert supplier.orders("PO-15")[0]["reference"] == "PO-15-OTHER"


def test_a_control_with_a_duration_ends_by_itself(supplier: Simulator) -> None:
    supplier.control("lookup_down", seconds=0)
    assert supplier.orders("PO-16") == []


@pytest.mark.parametrize(
    "body",
    [{"point": "nonsense"}, {"point": "before_accept"}, {"point": "refuse", "times": -1}, {"point": "refuse", "x": 1}],
)
def test_a_control_that_makes_no_sense_is_refused(supplier: Simulator, body: Any) -> None:
    assert supplier.http.post("/control", json=body).status_code == 400


def test_an_order_is_cancelled_once_and_may_be_refused(supplier: Simulator) -> None:
    placed = supplier.place(order("PO-17"), "key-17").json()
    door = f"/orders/{placed['id']}/cancellation"
    supplier.control("refuse", on=["cancel"], times=1)
    assert supplier.http.post(door).status_code == 422
    cancelled = supplier.http.post(door, headers={"Idempotency-Key": "undo-17"})
    assert (cancelled.status_code, cancelled.json()["state"]) == (200, "cancelled")
    assert supplier.http.post(door, headers={"Idempotency-Key": "undo-17"}).headers["idempotent-replayed"] == "true"
    assert supplier.http.post(door, headers={"Idempotency-Key": "other"}).status_code == 409
    assert supplier.http.post("/orders/SO-NONE/cancellation").status_code == 404


@pytest.mark.parametrize("sig", [signal.SIGTERM, signal.SIGKILL])
def test_it_ends_at_once_with_a_request_held_and_keeps_its_store(tmp_path: Path, sig: int) -> None:
    store = tmp_path / "store.sqlite3"
    with Simulator(store) as supplier:
        placed = supplier.place(order("PO-18"), "key-18").json()
        supplier.control("before_accept", until_released=True)
        held = supplier.place_later(order("PO-19"), "key-19")
        supplier.wait_for("PO-19", "held")
        assert supplier.stop(sig) == (0 if sig == signal.SIGTERM else -signal.SIGKILL)
        assert held.exception() is not None or held.result().status_code == 499
    with Simulator(store) as supplier:
        assert supplier.orders("PO-18") == [placed]
        assert supplier.orders("PO-19") == []
        assert supplier.place(order("PO-18"), "key-18").headers["idempotent-replayed"] == "true"


SECRET = "whsec_" + "c3VwcGxpZXItc2ltdWxhdG9y"


class Inbox(ThreadingHTTPServer):
    """Takes webhooks; answers what it is told to."""

    def __init__(self) -> None:
        self.taken: Queue[tuple[dict[str, str], bytes]] = Queue()
        self.answers: list[int] = []
        self.arrived: Queue[str] = Queue()
        self.may_answer = threading.Event()
        self.may_answer.set()
        super().__init__(("127.0.0.1", 0), _InboxHandler)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/hook"


class _InboxHandler(BaseHTTPRequestHandler):
    server: Inbox

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["content-length"]))
        self.server.arrived.put(self.headers["webhook-id"])
        self.server.may_answer.wait(10)
        self.send_response(self.server.answers.pop(0) if self.server.answers else 204)
        self.end_headers()
        self.server.taken.put((dict(self.headers.items()), body))

    def log_message(self, format: str, *args: Any) -> None:
        """Quiet."""


@pytest.fixture
def inbox() -> Iterator[Inbox]:
    with Inbox() as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield server
        server.shutdown()


def test_webhooks_are_signed_and_sent_again_until_taken(tmp_path: Path, inbox: Inbox) -> None:
    inbox.answers = [503]
    with Simulator(tmp_path / "store.sqlite3", webhook_url=inbox.url, webhook_secret=SECRET) as supplier:
        placed = supplier.place(order("PO-20"), "key-20").json()
        refused, taken = inbox.taken.get(timeout=10), inbox.taken.get(timeout=10)
        supplier.http.post(f"/orders/{placed['id']}/cancellation")
        cancelled = inbox.taken.get(timeout=10)
        supplier.control("webhook_off", reference="PO-21")
        supplier.place(order("PO-21"))
        assert supplier.wait_for("PO-21", "webhook_off")
    events = [Webhook(SECRET).verify(body, headers) for headers, body in (refused, taken, cancelled)]
    assert [event["type"] for event in events] == ["order.accepted", "order.accepted", "order.cancelled"]
    assert events[0] == events[1]
    assert events[1]["data"] == placed
    assert refused[0]["webhook-id"] == taken[0]["webhook-id"] != cancelled[0]["webhook-id"]


def test_it_forgets_only_when_nothing_is_on_its_way_any_more(tmp_path: Path, inbox: Inbox) -> None:
    inbox.may_answer.clear()
    with Simulator(tmp_path / "store.sqlite3", webhook_url=inbox.url, webhook_secret=SECRET) as supplier:
        supplier.place(order("PO-22"), "key-22")
        inbox.arrived.get(timeout=10)
        with pytest.raises(httpx.ReadTimeout):
            supplier.http.post("/reset", json={"store": True}, timeout=0.5)
        inbox.may_answer.set()
        assert supplier.http.post("/reset", json={"store": True}).json()["store_wiped"] is True
        assert inbox.taken.qsize() == 1 and supplier.http.get("/log").json()["entries"] == []
