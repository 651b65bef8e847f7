"""What a valid order is at the supplier: shape, limits and a total that adds up. It decides nothing else."""

import hashlib
import json
import re
from dataclasses import dataclass
from typing import Any

from examples.money import BadAmount, decimal_text, minor_units

BODY_BYTES_MAX = 64 * 1024
LINES_MAX = 200
_REFERENCE = re.compile(r"[A-Za-z0-9][A-Za-z0-9._#:/-]{0,63}", re.ASCII)
_FIELDS = {"reference", "currency", "total", "lines", "note"}
_LINE_FIELDS = {"sku", "description", "quantity", "unit_price"}


class Refused(Exception):
    """The supplier says a definite no: HTTP `status`, stable `code`, and a sentence."""

    def __init__(self, status: int, code: str, detail: str) -> None:
        super().__init__(detail)
        self.status, self.code, self.detail = status, code, detail


@dataclass(frozen=True)
class Order:
    """An order as asked for; `total` is canonical (exactly the currency's decimals)."""

    reference: str
    currency: str
    total: str
    lines: tuple[dict[str, Any], ...]
    digest: str


def read_object(raw: bytes, fields: set[str]) -> dict[str, Any]:
    """The JSON object in `raw` with no field outside `fields`; Refused otherwise."""
    if len(raw) > BODY_BYTES_MAX:
        raise Refused(413, "too_large", f"A body may have {BODY_BYTES_MAX} bytes.")
    try:
        body = json.loads(raw or b"{}")
    except ValueError as error:
        raise Refused(400, "not_json", f"The body is not JSON in UTF-8: {error}") from None
    if not isinstance(body, dict):
        raise Refused(400, "not_an_object", "The body must be a JSON object.")
    if unknown := sorted(set(body) - fields):
        raise Refused(400, "unknown_field", f"Unknown field: {', '.join(unknown)}. Known: {', '.join(sorted(fields))}.")
    return body


def read_order(raw: bytes) -> Order:
    """Parse and check an order; Refused names the field and the remedy."""
    body = read_object(raw, _FIELDS)
    reference = body.get("reference")
    if not isinstance(reference, str) or not _REFERENCE.fullmatch(reference):
        raise Refused(422, "bad_reference", "reference: 1 to 64 letters, digits and . _ # : / - are needed.")
    lines, currency = body.get("lines"), body.get("currency")
    if not isinstance(lines, list) or not 1 <= len(lines) <= LINES_MAX:
        raise Refused(422, "bad_lines", f"lines: 1 to {LINES_MAX} lines are needed.")
    try:
        total = minor_units(body.get("total"), str(currency))
        summed = sum(_line_total(line, str(currency)) for line in lines)
    except BadAmount as error:
        raise Refused(422, "bad_amount", f"{error}.") from None
    if total != summed:
        wanted = decimal_text(summed, str(currency))
        raise Refused(422, "total_does_not_add_up", f"total: the lines add up to {wanted}, not {body['total']}.")
    canonical = json.dumps(body, sort_keys=True, separators=(",", ":")).encode()
    digest = hashlib.sha256(canonical).hexdigest()
    return Order(reference, str(currency), decimal_text(total, str(currency)), tuple(lines), digest)


def _line_total(line: Any, currency: str) -> int:
    if not isinstance(line, dict) or set(line) - _LINE_FIELDS or not isinstance(line.get("sku"), str):
        raise Refused(422, "bad_lines", f"lines: each has {', '.join(sorted(_LINE_FIELDS))} and nothing else.")
    quantity = line.get("quantity")
    if not isinstance(quantity, int) or isinstance(quantity, bool) or not 1 <= quantity <= 1_000_000:
        raise Refused(422, "bad_quantity", "quantity: a whole number from 1 to 1000000 is needed.")
    return quantity * minor_units(line.get("unit_price"), currency)
