"""A real mail server for tests (aiosmtpd) that keeps what it takes, and refuses, hangs up or says what a test tells it to."""

import email
import email.policy
import ssl
from collections.abc import Callable
from dataclasses import dataclass, field
from email.message import EmailMessage
from types import TracebackType
from typing import Any, Literal, Self

from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, AuthResult, Envelope, LoginPassword, Session

from console.embedded.processes import free_port

Point = Literal["MAIL", "RCPT", "DATA", "before_store", "after_store"]
USER, PASSWORD = "countermand", "only for the tests"


@dataclass
class Kept:
    """One mail that the server has taken."""

    sender: str
    recipients: list[str]
    raw: bytes

    @property
    def message(self) -> EmailMessage:
        """As its reader sees it, with plain line ends."""
        parsed = email.message_from_bytes(self.raw.replace(b"\r\n", b"\n"), policy=email.policy.default)
        assert isinstance(parsed, EmailMessage)
        return parsed


@dataclass
class MailServer:
    """`with MailServer() as server:` listens on `server.port`; `server.mails` is what it has taken, oldest first."""

    tls: ssl.SSLContext | None = None
    mails: list[Kept] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """Every MAIL, RCPT and DATA that reached the server, in order."""
    replies: dict[str, str] = field(default_factory=dict)
    """What to answer to `MAIL`, `END`, or to one recipient's RCPT."""
    drop_at: Point | None = None
    """Hang up there, until told otherwise."""

    def __enter__(self) -> Self:
        self.port = free_port()
        options: dict[str, Any] = {"authenticator": _authenticate, "auth_required": True} if self.tls else {}
        self._controller = Controller(
            _Handler(self), hostname="127.0.0.1", port=self.port, tls_context=self.tls, require_starttls=bool(self.tls), **options
        )
        self._controller.start()
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._controller.stop()

    @property
    def url(self) -> str:
        return f"smtp://127.0.0.1:{self.port}"


def _authenticate(server: SMTP, session: Session, envelope: Envelope, mechanism: str, given: Any) -> AuthResult:
    right = isinstance(given, LoginPassword) and (given.login, given.password) == (USER.encode(), PASSWORD.encode())
    return AuthResult(success=right, handled=right, message=None if right else "535 5.7.8 wrong")


class _Handler:
    def __init__(self, told: MailServer) -> None:
        self.told = told

    async def handle_MAIL(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        return self._answer(server, "MAIL", address, lambda: setattr(envelope, "mail_from", address))

    async def handle_RCPT(self, server: SMTP, session: Session, envelope: Envelope, address: str, options: list[str]) -> str:
        return self._answer(server, "RCPT", address, lambda: envelope.rcpt_tos.append(address))

    def _answer(self, server: SMTP, command: Literal["MAIL", "RCPT"], address: str, take: Callable[[], None]) -> str:
        self.told.asked.append(f"{command} {address}")
        if self.told.drop_at == command:
            _hang_up(server)
        if reply := self.told.replies.get(command) or self.told.replies.get(address):
            return reply
        take()
        return "250 2.0.0 OK"

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.told.asked.append("DATA")
        if self.told.drop_at == "before_store":
            _hang_up(server)
            return "421 gone"
        reply = self.told.replies.get("END", f"250 2.0.0 Ok: queued as 4F3A{len(self.told.mails):02d}")
        if reply.startswith("250"):
            assert isinstance(envelope.content, bytes)
            self.told.mails.append(Kept(envelope.mail_from or "", list(envelope.rcpt_tos), envelope.content))
        if self.told.drop_at == "after_store":
            _hang_up(server)
        return reply


def _hang_up(server: SMTP) -> None:
    assert server.transport is not None
    server.transport.abort()
