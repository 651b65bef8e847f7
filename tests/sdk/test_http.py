"""What an HTTP exchange with a provider proves, and what it does not."""

import httpx
import pytest

from countermand import Countermand, NotSent, Pending, Refused, Unreachable
from countermand.http import classified, conclude, verdict
from tests.sdk.double import Double

REQUEST = httpx.Request("POST", "http://supplier/orders")


def response(status: int, **options: object) -> httpx.Response:
    return httpx.Response(status, request=REQUEST, **options)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("seen", "proves"),
    [
        (httpx.ConnectError("refused"), "not_sent"),
        (httpx.ConnectTimeout("slow"), "not_sent"),
        (httpx.PoolTimeout("busy"), "not_sent"),
        (httpx.ReadTimeout("slow"), "unknown"),
        (httpx.WriteError("reset"), "unknown"),
        (httpx.RemoteProtocolError("gone"), "unknown"),
        (ValueError("anything"), "unknown"),
        *[(response(status), "refused") for status in (400, 405, 413, 415, 422)],
        *[(response(status), "unknown") for status in (401, 403, 404, 408, 409, 425, 429, 500, 502, 503, 504, 302, 307)],
        (response(200, json={"id": 1}), "landed"),
        (response(201, json={"id": 1}), "landed"),
        (response(204), "landed"),
        (response(202, json={"id": 1}), "pending"),
        (response(200, html="<h1>Down for maintenance</h1>"), "unknown"),
    ],
)
def test_verdict(seen: BaseException | httpx.Response, proves: str) -> None:
    assert verdict(seen) == proves


def test_only_the_adapter_can_make_another_4xx_a_definite_no() -> None:
    assert verdict(response(402), definite_no={402}) == "refused"
    assert verdict(response(502), definite_no={502}) == "unknown"


def test_conclude_returns_the_body_or_raises_the_verdict() -> None:
    assert conclude(response(201, json={"id": "S-1"})) == {"id": "S-1"}
    with pytest.raises(Refused):
        conclude(response(422, json={"error": "total"}))
    with pytest.raises(Pending) as later:
        conclude(response(202, json={"id": "S-1"}))
    assert later.value.external_id == "S-1"
    with pytest.raises(httpx.HTTPStatusError):
        conclude(response(409))


def test_classified_turns_only_proof_into_a_verdict() -> None:
    with pytest.raises(NotSent), classified():
        raise httpx.ConnectError("refused")
    with pytest.raises(httpx.ReadTimeout), classified():
        raise httpx.ReadTimeout("slow")


@pytest.mark.parametrize("reply", [(302, {}), (500, {}), (429, {})])
def test_an_answer_that_is_not_the_control_planes_confirms_nothing(
    plane: Double, cm: Countermand, reply: tuple[int, dict[str, str]]
) -> None:
    plane.once("/claim", reply)
    with pytest.raises(Unreachable):
        cm.door.claim({"holder": "h", "agents": ["a"]})
