"""Mail over SMTP: one mail, one connection, one try. What the server says, and when the connection is lost, decides what it proves.

The mail is the server's from the moment that the line which ends it is written (RFC 5321, 4.1.1.4). Before that line nothing can have
been sent, whatever happens; after it only the server's own word counts. A mail server cannot be asked later, and a mail cannot be
called back.
"""

import contextlib
import hashlib
import os
import re
import select
import smtplib
import socket
import ssl
import threading
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from email.headerregistry import Address
from types import MappingProxyType
from typing import Any, Literal

from ledger.providers.base import Answer, Capability, Found, Look, News, ProviderConfigError, Send, SignatureRefused, Sought
from ledger.providers.guard import resolve
from ledger.providers.mail import BadMail, Mail, address, compose, message_id
from ledger.providers.wire import excerpt

ACTION = "send_mail"
CAPABILITY = Capability(
    lookup="none",
    max_in_flight_s=600,
    irreversible=MappingProxyType({ACTION: "A mail cannot be called back: write another one that corrects it"}),
)
_SETTINGS = {
    "kind", "name", "host", "port", "tls", "ca_file", "username", "password_env", "from", "from_name", "helo", "timeout_s", "max_bytes",
    "capability",
}  # fmt: skip
_PORTS = {"starttls": 587, "implicit": 465, "none": 25}
_QUEUE_ID = re.compile(r"\bqueued as\W+([\w.-]+)|\bid=([\w.-]+)", re.IGNORECASE | re.ASCII)
_REPLY = re.compile(rb"(\d{3})(?:-[^\n]*\n\1)*(?: [^\n]*)?\r?\n")
_REPLY_BYTES_MAX = 65536
_GOING_AWAY = 421
_SAID_MAX = 300


class _No(Exception):
    """The server said no, or what is not a yes, before the mail was its own."""

    def __init__(self, step: str, code: int, said: bytes) -> None:
        super().__init__(step)
        self.step, self.code, self.said = step, code, said


class Smtp:
    """Settings: `host`, `port`, `tls` (starttls | implicit | none), `ca_file`, `username` and `password_env` (the name of an
    environment variable), `from`, `from_name`, `helo`, `timeout_s` (a whole exchange, 30), `max_bytes` (10 MiB), `capability`.
    """

    kind = "smtp"

    def __init__(self, config: Mapping[str, Any]) -> None:
        if unknown := sorted(set(config) - _SETTINGS):
            raise ProviderConfigError(f"smtp: unknown setting {', '.join(unknown)}. Known: {', '.join(sorted(_SETTINGS))}.")
        self.capability = CAPABILITY.with_settings(config.get("capability", {}))
        if self.capability.lookup != "none" or self.capability.compensable:
            raise ProviderConfigError("smtp: capability.lookup and capability.compensable stay as they are: a mail server offers neither.")
        self._host = _setting(config, "host", str, "the name of the mail server")
        tls = config.get("tls", "starttls")
        if tls not in _PORTS:
            raise ProviderConfigError('smtp: tls is "starttls", "implicit" or "none".')
        self._tls_mode: str = tls
        self._port = _setting(config, "port", int, "a port number, 1 to 65535", _PORTS[tls])
        self._timeout_s = _setting(config, "timeout_s", int | float, "a number of seconds, more than 0", 30)
        self._max_bytes = _setting(config, "max_bytes", int, "a number of bytes, more than 0", 10 * 1024 * 1024)
        if not 0 < self._port < 65536 or self._timeout_s <= 0 or self._max_bytes <= 0:
            raise ProviderConfigError("smtp: port is 1 to 65535; timeout_s and max_bytes are more than 0.")
        self._sender = _sender(config)
        self._helo = _setting(config, "helo", str, "the host name that we greet with", self._sender.domain)
        if not re.fullmatch(r"[A-Za-z0-9.:\[\]-]+", self._helo, re.ASCII):
            raise ProviderConfigError("smtp: helo is a host name.")
        self._login = _login(config, tls)
        self._tls = _tls_context(config)

    def look(self, sought: Sought) -> Look:
        """A mail server cannot be asked: never information."""
        return Look("unreachable", detail="A mail server cannot be asked whether it took a mail.")

    def compensate(self, send: Send) -> Answer:
        """A mail cannot be called back: nothing is sent."""
        return Answer("not_sent", detail="A mail cannot be called back.")

    def read_webhook(self, headers: Mapping[str, str], raw: bytes, now: datetime) -> News:
        """Mail servers send none. SignatureRefused."""
        raise SignatureRefused("A mail server sends no webhooks.")

    def perform(self, send: Send) -> Answer:
        """`send_mail`: hand one mail to the server, once, for all its recipients or for none."""
        if send.action != ACTION:
            return Answer("not_sent", detail=f"This provider performs {ACTION}.")
        identity = message_id(send.provider_reference, send.operation_id, self._sender.domain)
        try:
            mail = compose(send.request, self._sender, identity, datetime.now(UTC))
        except BadMail as error:
            return Answer("not_sent", detail=str(error))
        if len(mail.data) > self._max_bytes:
            return Answer("not_sent", detail=f"The mail has {len(mail.data)} bytes, more than max_bytes ({self._max_bytes}).")
        with contextlib.ExitStack() as stack:
            try:
                smtp = stack.enter_context(self._session())
                _write(smtp, mail)
            except _No as no:
                refused = 500 <= no.code <= 599
                return _answer("refused" if refused else "not_sent", no.code, no.said, f"{no.step}. Nothing was sent to anybody.")
            except (OSError, smtplib.SMTPException, ValueError) as error:
                return Answer("not_sent", detail=f"The end of the mail was never written: {_words(error)}")
            return _end(smtp, mail, send.provider_reference)

    @contextlib.contextmanager
    def _session(self) -> Iterator[smtplib.SMTP]:
        """A connection that was greeted, encrypted and logged in as configured, and that is cut when the time of the exchange is over."""
        until = time.monotonic() + self._timeout_s
        connection = self._connect(until)
        with contextlib.ExitStack() as stack:
            stack.callback(connection.close)
            # Another descriptor of the same connection: TLS takes the first one over, and the clock must not touch TLS's own state.
            line = stack.enter_context(connection.dup())
            clock = threading.Timer(max(0.0, until - time.monotonic()), _cut, [line])
            clock.daemon = True
            clock.start()
            stack.callback(clock.cancel)
            smtp = smtplib.SMTP(local_hostname=self._helo)
            smtp.sock = connection
            stack.callback(_leave, smtp)
            self._greet(smtp)
            yield smtp

    def _connect(self, until: float) -> socket.socket:
        failed: OSError = TimeoutError(f"{self._host} could not be reached in time")
        for found in resolve(self._host, self._port, self._timeout_s):
            left = until - time.monotonic()
            if left <= 0:
                break
            try:
                return socket.create_connection((str(found), self._port), timeout=left)
            except OSError as error:
                failed = error
        raise failed

    def _greet(self, smtp: smtplib.SMTP) -> None:
        if self._tls_mode == "implicit":
            self._encrypt(smtp)
        if (reply := smtp.getreply())[0] != 220:
            raise _Away("did not greet us", reply)
        self._hello(smtp)
        if self._tls_mode == "starttls":
            if (reply := smtp.docmd("STARTTLS"))[0] != 220:
                raise _Away("offers no STARTTLS", reply)
            self._encrypt(smtp)
            self._hello(smtp)
        if self._login:
            smtp.login(*self._login)

    def _encrypt(self, smtp: smtplib.SMTP) -> None:
        assert self._tls is not None and smtp.sock is not None
        smtp.sock = self._tls.wrap_socket(smtp.sock, server_hostname=self._host)
        smtp.file = None  # what was said in the clear does not count as said under TLS

    def _hello(self, smtp: smtplib.SMTP) -> None:
        if (reply := smtp.ehlo())[0] != 250:
            raise _Away("did not take our EHLO", reply)


class _Away(smtplib.SMTPException):
    """The server does not work with us at all: it is no answer to this mail."""

    def __init__(self, what: str, reply: tuple[int, bytes]) -> None:
        super().__init__(f"the server {what} ({reply[0]} {_text(reply[1])})")


def _write(smtp: smtplib.SMTP, mail: Mail) -> None:
    """Envelope and mail, all but the line that ends it. Raises _No, OSError, SMTPException: none of it leaves a mail behind."""
    options = [f"size={len(mail.data)}"] if smtp.has_extn("size") else []
    if (reply := smtp.mail(mail.sender, options))[0] != 250:
        raise _No(f"The sender {mail.sender} was refused", *reply)
    answers = [(recipient, *smtp.rcpt(recipient)) for recipient in mail.recipients]
    if wrong := [answer for answer in answers if answer[1] not in (250, 251)]:
        # One mail is one effect: it goes to all or to nobody. A final no weighs more than "later".
        _, code, said = max(wrong, key=lambda answer: answer[1])
        raise _No(f"Refused: {', '.join(recipient for recipient, *_ in wrong)}", code, said)
    if (reply := smtp.docmd("DATA"))[0] != 354:
        raise _No("The mail was refused before it was sent", *reply)
    assert smtp.sock is not None
    smtp.send(mail.data)
    if _has_spoken(smtp.sock):
        # It has hung up, or will not have the mail: without its last line it is none.
        raise _No("The mail was refused while it was being sent", *smtp.getreply())


def _end(smtp: smtplib.SMTP, mail: Mail, reference: str) -> Answer:
    """Write the line that ends the mail and read what the server says of it. From here on silence is doubt."""
    try:
        assert smtp.sock is not None
        smtp.send(b".\r\n")
        code, said = _last_word(smtp.sock)
    except (OSError, smtplib.SMTPException, ValueError) as error:
        return Answer("unknown", detail=f"Handed over as {mail.message_id}, but no word of the server came back: {_words(error)}")
    if code == 250:
        found = Found(mail.message_id, "landed", None, None, reference, None)
        return _answer("landed", code, said, f"Taken as {mail.message_id}", found)
    if 400 <= code <= 599 and code != _GOING_AWAY:
        return _answer("refused", code, said, "The mail was refused after it was read. It was not taken.")
    return _answer("unknown", code, said, f"Handed over as {mail.message_id}, and the server's word does not tell whether it took it.")


def _answer(
    verdict: Literal["landed", "refused", "unknown", "not_sent"], code: int, said: bytes, what: str, found: Found | None = None
) -> Answer:
    raw = b"%d %s" % (code, said)
    queue_id = _QUEUE_ID.search(_text(said)) if verdict == "landed" else None
    return Answer(
        verdict,
        found,
        body=excerpt(raw, None),
        body_sha256=hashlib.sha256(raw).hexdigest(),
        request_id=(queue_id[1] or queue_id[2]) if queue_id else None,
        detail=f"{what} ({code} {_text(said)})",
    )


def _last_word(connection: socket.socket) -> tuple[int, bytes]:
    """The whole reply to a whole mail, from what arrives now: not from a buffer of what was said before the mail had ended."""
    raw = b""
    while not (reply := _REPLY.match(raw)):
        chunk = connection.recv(4096)
        if not chunk or len(raw) > _REPLY_BYTES_MAX:
            raise OSError(f"it ended in the middle of its word {raw[:100]!r}" if raw else "the connection was lost")
        raw += chunk
    return int(reply[1]), raw[4 : reply.end()].strip()


def _has_spoken(connection: socket.socket) -> bool:
    """Whether the server has said something, or hung up, before it was its turn."""
    waiting = select.poll()
    waiting.register(connection, select.POLLIN)
    return bool(waiting.poll(0))


def _cut(line: socket.socket) -> None:
    with contextlib.suppress(OSError):
        line.shutdown(socket.SHUT_RDWR)


def _leave(smtp: smtplib.SMTP) -> None:
    """Say goodbye without waiting for an answer: what was to be known is known."""
    with contextlib.suppress(OSError, smtplib.SMTPException):
        smtp.putcmd("QUIT")
    smtp.close()


def _text(said: bytes) -> str:
    return " ".join(said.decode("ascii", "replace").split())[:_SAID_MAX]


def _words(error: Exception) -> str:
    if isinstance(error, smtplib.SMTPResponseException):
        said = error.smtp_error if isinstance(error.smtp_error, bytes) else str(error.smtp_error).encode()
        return f"{error.smtp_code} {_text(said)}"
    return f"{type(error).__name__}: {error}"[:_SAID_MAX]


# Settings


def _setting(config: Mapping[str, Any], name: str, kind: Any, wanted: str, default: Any = None) -> Any:
    value = config.get(name, default)
    if not isinstance(value, kind) or isinstance(value, bool) or value == "":
        raise ProviderConfigError(f"smtp: {name} is needed: {wanted}.")
    return value


def _sender(config: Mapping[str, Any]) -> Address:
    try:
        plain = address(config.get("from"), "from")
    except BadMail as error:
        raise ProviderConfigError(f"smtp: {error}") from None
    name = config.get("from_name", "")
    if not isinstance(name, str) or not (name.isprintable() and len(name) <= 100):
        raise ProviderConfigError("smtp: from_name is one line of at most 100 characters.")
    return Address(display_name=name, addr_spec=plain)


def _login(config: Mapping[str, Any], tls: str) -> tuple[str, str] | None:
    if "username" not in config and "password_env" not in config:
        return None
    username = _setting(config, "username", str, "the account that password_env belongs to")
    variable = _setting(config, "password_env", str, "the name of the environment variable that holds the password of username")
    if tls == "none":
        raise ProviderConfigError('smtp: username needs tls "starttls" or "implicit": the password would travel in the clear.')
    password = os.environ.get(variable, "")
    if not password or not password.isascii() or not password.isprintable():
        raise ProviderConfigError(f"smtp: password_env: the environment variable {variable} is empty, or is no plain text.")
    return username, password


def _tls_context(config: Mapping[str, Any]) -> ssl.SSLContext | None:
    if config.get("tls") == "none":
        if "ca_file" in config:
            raise ProviderConfigError('smtp: ca_file has no meaning with tls "none".')
        return None
    try:
        return ssl.create_default_context(cafile=config.get("ca_file"))
    except (OSError, TypeError) as error:
        raise ProviderConfigError(f"smtp: ca_file cannot be read ({error}).") from None
