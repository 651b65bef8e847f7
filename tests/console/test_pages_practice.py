"""The practice ground: it tells a supplier what to do wrong and creates real runs; it writes nothing else."""

import json
from typing import Any

import httpx
import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from examples.purchase_orders.orders import CSV_PATH
from examples.purchase_orders.situations import BY_KEY
from runs.models import Event, Run
from tests.console.browsing import person, text
from tests.makers import kinds

pytestmark = pytest.mark.usefixtures("database")

HEADER = CSV_PATH.read_text("utf-8").splitlines()[0]
ORDER = CSV_PATH.read_text("utf-8").splitlines()[1]


@pytest.fixture
def supplier(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, Any]]:
    """What the supplier was told, instead of a supplier; one that is away is `monkeypatch`ed again."""
    told: list[tuple[str, Any]] = []

    def post(url: str, json: Any, **options: Any) -> httpx.Response:
        told.append((url.rpartition("/")[2], json))
        return httpx.Response(200, request=httpx.Request("POST", url))

    monkeypatch.setattr("console.demo.starting.httpx.post", post)
    return told


def test_every_situation_is_offered():
    said = text(person().get("/demo/"))
    for situation in BY_KEY.values():
        assert situation.title in said and situation.sees in said


@pytest.mark.parametrize("key", BY_KEY)
def test_starting_one_tells_the_supplier_and_creates_a_real_run(supplier, key):
    response = person().post("/demo/start", {"situation": key})
    run = Run.objects.get()
    assert response.status_code == 302 and response.headers["Location"] == f"/runs/{run.ref}/"
    assert [body for _, body in supplier] == BY_KEY[key].supplier_controls(run.business_ref)
    assert (run.state, run.agent, run.labels) == ("scheduled", "purchase-order", {"practice": key})
    assert run.input["order"]["po_number"] == run.business_ref and run.owner_name == "Sam Support (practice)"
    assert kinds(run) == ["run.created"], "nothing is written for show"


def test_starting_again_is_another_order(supplier):
    client = person()
    for _ in range(2):
        client.post("/demo/start", {"situation": "plain"})
    assert len(set(Run.objects.values_list("business_ref", flat=True))) == 2
    assert text(client.get("/demo/")).count("Scheduled") == 2


def test_a_supplier_that_is_away_starts_nothing(monkeypatch):
    def away(*args: Any, **options: Any) -> httpx.Response:
        raise httpx.ConnectError("refused")

    monkeypatch.setattr("console.demo.starting.httpx.post", away)
    response = person().post("/demo/start", {"situation": "in_flight"})
    assert response.status_code == 503 and "Nothing was started." in text(response)
    assert not Run.objects.exists() and not Event.objects.exists()


def test_an_unknown_situation_is_refused(supplier):
    response = person().post("/demo/start", {"situation": "world_peace"})
    assert response.status_code == 400 and "That situation does not exist." in text(response)


def test_the_first_orders_of_the_file(supplier):
    client = person()
    response = client.post("/demo/orders", {"first": "3"}, follow=True)
    assert "3 orders have a run." in text(response) and Run.objects.count() == 3
    client.post("/demo/orders", {"first": "4"})
    assert Run.objects.count() == 4, "an order gets no second run"


@pytest.mark.parametrize("first", ["0", "-1", "51", "many", ""])
def test_how_many_is_said_when_it_is_wrong(supplier, first):
    response = person().post("/demo/orders", {"first": first})
    assert response.status_code == 400 and "from 1 to 50" in text(response) and not Run.objects.exists()


def upload(content: bytes):
    return person().post("/demo/orders", {"file": SimpleUploadedFile("orders.csv", content)}, follow=True)


def test_a_file_of_ones_own(supplier):
    response = upload(f"{HEADER}\n{ORDER}\n".encode())
    assert "1 order has a run." in text(response)
    assert Run.objects.get().business_ref == ORDER.partition(",")[0]


@pytest.mark.parametrize(
    ("content", "told"),
    [
        (b"", "has no column"),
        (b"a,b\n1,2\n", "has no column po_number"),
        (HEADER.encode() + b"\n", "has no orders"),
        (HEADER.encode() + b"\n\xff\xfe\n", "not UTF-8"),
        (b"x" * 300_000, "larger than 256 KiB"),
        ((HEADER + "\n" + (ORDER + "\n") * 201).encode(), "200 at most"),
        (f"{HEADER}\nPO-1,2026-01-01,Acme,York,Ann,EUR,two bolts,10.00\n".encode(), "is not of the form"),
    ],
    ids=["empty", "columns", "no orders", "encoding", "too large", "too many", "a line"],
)
def test_what_is_wrong_with_a_file_is_said(supplier, content, told):
    response = upload(content)
    assert response.status_code == 400 and told in text(response) and not Run.objects.exists()


def test_letting_the_supplier_go_on(supplier):
    assert "goes on with everything" in text(person().post("/demo/release", follow=True))
    assert supplier == [("release", {})]


def test_auditors_start_nothing(supplier):
    auditor = person("Ode", "Auditor")
    assert auditor.get("/demo/").status_code == 403
    for path, form in (("start", {"situation": "plain"}), ("orders", {"first": "3"}), ("release", {})):
        assert auditor.post(f"/demo/{path}", form).status_code == 403, path
    assert not supplier and not Run.objects.exists()
    assert "Practice" not in json.dumps([item["label"] for item in auditor.get("/runs/").context["nav"]])


def test_a_form_without_its_token_does_nothing(supplier):
    client = person(enforce_csrf_checks=True)
    for path in ("start", "orders", "release"):
        assert client.post(f"/demo/{path}", {"situation": "plain", "first": "1"}).status_code == 403
    assert not supplier and not Run.objects.exists()
