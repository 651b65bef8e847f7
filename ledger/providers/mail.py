"""From an action's request to the exact bytes of one mail, or the reason why it cannot be one.

Hostile text stays text: no value can add a header, a recipient or a command, because whatever could end a line is refused, not cleaned.
"""

import re
import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from email.headerregistry import Address
from email.message import EmailMessage
from email.policy import SMTP
from typing import Any

RECIPIENTS_MAX = 100
SUBJECT_MAX = 500
_FIELDS = {"to", "cc", "reply_to", "subject", "text", "html"}
_ADDRESS = re.compile(r"[A-Za-z0-9.!#$%&'*+/=?^_`{|}~-]{1,64}@[A-Za-z0-9-]{1,63}(\.[A-Za-z0-9-]{1,63})*", re.ASCII)
_POLICY = SMTP.clone(cte_type="7bit")  # no server has to understand more
_NO_TEXT = re.compile("[\0\ud800-\udfff]")
_LINE_END = re.compile(rb"\r\n|\r|\n")
_STARTING_DOT = re.compile(rb"^\.", re.MULTILINE)


class BadMail(ValueError):
    """The request is no mail; the message names the field and the remedy."""


@dataclass(frozen=True)
class Mail:
    """One mail as it goes over the wire: `data` has CRLF line ends and doubled dots, and lacks only the line that ends it."""

    message_id: str
    sender: str
    recipients: tuple[str, ...]
    data: bytes


def message_id(reference: str, operation_id: str, domain: str) -> str:
    """`<PO-1042.0192….@example.org>`: the same for every attempt of one operation, and readable for whoever searches a log for it."""
    readable = re.sub(r"[^A-Za-z0-9-]+", "-", reference).strip("-")[:32].strip("-")
    unique = re.sub(r"[^A-Za-z0-9-]+", "-", operation_id)[:64]
    return f"<{readable}.{unique}@{domain}>" if readable else f"<{unique}@{domain}>"


def compose(request: Mapping[str, Any], sender: Address, identity: str, at: datetime) -> Mail:
    """The mail that a request describes: `to` (one address or a list), `subject`, `text`; also `cc`, `reply_to`, `html`. BadMail.

    `identity` is the Message-ID, `at` the date. A field that is not known is refused: what it asked for would be missing.
    """
    if unknown := sorted(set(request) - _FIELDS):
        raise BadMail(f"{unknown[0]}: a mail has no such field. Known: {', '.join(sorted(_FIELDS))}.")
    to, cc = _addresses(request, "to"), _addresses(request, "cc")
    recipients = tuple(dict.fromkeys(to + cc))
    if not to or len(recipients) > RECIPIENTS_MAX:
        raise BadMail(f"to: at least one address is needed, and with cc at most {RECIPIENTS_MAX}.")
    message = EmailMessage(policy=_POLICY)
    message["From"] = sender
    message["To"] = [Address(addr_spec=address) for address in to]
    if cc:
        message["Cc"] = [Address(addr_spec=address) for address in cc]
    if reply_to := _addresses(request, "reply_to"):
        message["Reply-To"] = [Address(addr_spec=address) for address in reply_to]
    message["Subject"] = _line(request.get("subject"), "subject")
    message["Date"] = at
    message["Message-ID"] = identity
    message.set_content(_text(request, "text"))
    if "html" in request:
        message.add_alternative(_text(request, "html"), subtype="html")
    return Mail(identity, sender.addr_spec, recipients, _transparent(message.as_bytes()))


def address(value: object, field: str) -> str:
    """A plain address such as `ada@example.org`, without a display name. BadMail."""
    if isinstance(value, str) and len(value) <= 254 and _ADDRESS.fullmatch(value):
        local = value.partition("@")[0]
        if not (local.startswith(".") or local.endswith(".") or ".." in local):
            return value
    raise BadMail(f"{field}: {value!r:.100} is no plain address such as ada@example.org (a name in another script: in xn-- form).")


def _addresses(request: Mapping[str, Any], field: str) -> list[str]:
    given = request.get(field, [])
    return [address(value, field) for value in (given if isinstance(given, list | tuple) else [given])]


def _line(value: object, field: str) -> str:
    if not isinstance(value, str) or not value.strip() or len(value) > SUBJECT_MAX:
        raise BadMail(f"{field}: a text of 1 to {SUBJECT_MAX} characters is needed.")
    if any(unicodedata.category(c) in ("Cc", "Cs", "Zl", "Zp") for c in value):
        raise BadMail(f"{field}: one line without control characters.")
    return value


def _text(request: Mapping[str, Any], field: str) -> str:
    value = request.get(field)
    if not isinstance(value, str) or _NO_TEXT.search(value):
        raise BadMail(f"{field}: a text is needed.")
    return value


def _transparent(raw: bytes) -> bytes:
    """Every line ends in CRLF, and one that begins with a dot has another before it (RFC 5321, 4.5.2): no line can end the mail early."""
    lines = _LINE_END.sub(b"\n", raw)
    doubled = _STARTING_DOT.sub(b"..", lines)
    return (doubled if doubled.endswith(b"\n") else doubled + b"\n").replace(b"\n", b"\r\n")
