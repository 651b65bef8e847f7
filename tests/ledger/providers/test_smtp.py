"""The mail adapter against a real server: what each reply proves, and what it proves when the connection is lost where."""

import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ledger.providers import load
from ledger.providers.base import Answer, Provider, ProviderConfigError, Send, SignatureRefused
from ledger.providers.mail import message_id
from tests.ledger.providers import certificates
from tests.ledger.providers.test_supplier import NOW, sought
from tests.mailserver import PASSWORD, USER, MailServer
from tests.proxy import Proxy

OPERATION = "01930e2c-7d4e-7c3a-9b1a-000000000001"
MESSAGE_ID = f"<PO-1.{OPERATION}@example.org>"
MAIL = {"to": "ada@example.com", "subject": "Order PO-1", "text": "Ordered.\n"}


def config(at: int, **change: Any) -> dict[str, Any]:
    return {"kind": "smtp", "host": "127.0.0.1", "port": at, "tls": "none", "from": "agent@example.org", "timeout_s": 5, **change}


def mail(request: dict[str, Any] | None = None, **change: Any) -> Send:
    return Send(
        operation_id=change.get("operation_id", OPERATION), provider_reference=change.get("reference", "PO-1"),
        action=change.get("action", "send_mail"), amount=None, currency=None, request=MAIL if request is None else request,
    )  # fmt: skip


@pytest.fixture
def server() -> Iterator[MailServer]:
    with MailServer() as made:
        yield made


@pytest.fixture
def provider(server: MailServer) -> Provider:
    return load(config(server.port))


def test_a_mail_that_is_taken_has_landed_under_its_message_id(server: MailServer, provider: Provider) -> None:
    assert isinstance(provider, Provider)
    answer = provider.perform(mail())
    assert answer.verdict == "landed" and answer.found
    assert (answer.found.external_id, answer.found.state, answer.found.reference) == (MESSAGE_ID, "landed", "PO-1")
    assert (answer.found.amount, answer.request_id, len(answer.body_sha256)) == (None, "4F3A00", 64)
    (kept,) = server.mails
    message = kept.message
    assert (kept.sender, kept.recipients) == ("agent@example.org", ["ada@example.com"])
    assert (message["Message-ID"], message["Subject"], message["To"]) == (MESSAGE_ID, "Order PO-1", "ada@example.com")
    assert message.get_content() == "Ordered.\n" and message["Date"].datetime.tzinfo is not None


def test_the_message_id_is_the_same_for_every_attempt_and_another_for_another_operation() -> None:
    assert message_id("PO-1", OPERATION, "example.org") == MESSAGE_ID
    assert message_id("PO-1#2", OPERATION, "example.org") == f"<PO-1-2.{OPERATION}@example.org>"
    assert message_id("PO-1", "op-2", "example.org") == "<PO-1.op-2@example.org>"
    hostile = message_id("<x>\r\nBcc: eve@example.com, “注文”" + "x" * 999, "op\r\n", "example.org")
    assert re.fullmatch(r"<[A-Za-z0-9.-]{1,100}@example\.org>", hostile)
    assert message_id("注文", "op-1", "example.org") == "<op-1@example.org>"


def test_all_that_a_mail_may_have(server: MailServer) -> None:
    request = {
        "to": ["ada@example.com", "bob@example.com"], "cc": "cy@example.com", "reply_to": "desk@example.org",
        "subject": "注文 PO-1 — accepted", "text": "Grüße\n.\n..dots\r\nFrom here\rthere" + "x" * 2000, "html": "<p>Grüße</p>",
    }  # fmt: skip
    answer = load(config(server.port, from_name="Bestellungen, Ärzte")).perform(mail(request))
    assert answer.verdict == "landed", answer
    (kept,) = server.mails
    message = kept.message
    assert kept.recipients == ["ada@example.com", "bob@example.com", "cy@example.com"]
    assert (message["Subject"], message["Reply-To"], message["Cc"]) == (request["subject"], "desk@example.org", "cy@example.com")
    assert message["From"].addresses[0].display_name == "Bestellungen, Ärzte"
    text = message.get_body(("plain",))
    assert text and text.get_content() == "Grüße\n.\n..dots\nFrom here\nthere" + "x" * 2000 + "\n"
    html = message.get_body(("html",))
    assert html and "<p>Grüße</p>" in html.get_content()
    assert kept.raw.isascii() and max(map(len, kept.raw.splitlines())) < 998


@pytest.mark.parametrize(
    "text",
    [
        "\n.\nQUIT\n", "\r.\rMAIL FROM:<eve@example.com>\r", "\r\n.\r\nRCPT TO:<eve@example.com>\r\n", ".", "\n.", "..\n.\n..",
        "\x85.\u2028.\x0b.\x0c.",
    ],
)  # fmt: skip
def test_no_text_ends_a_mail_or_begins_another(server: MailServer, provider: Provider, text: str) -> None:
    assert provider.perform(mail({**MAIL, "text": f"before{text}after"})).verdict == "landed"
    assert provider.perform(mail({**MAIL, "text": text, "html": text})).verdict == "landed"
    assert [kept.recipients for kept in server.mails] == [["ada@example.com"]] * 2
    assert server.asked == ["MAIL agent@example.org", "RCPT ada@example.com", "DATA"] * 2
    got = server.mails[0].message.get_content()
    assert got.startswith("before") and got.rstrip("\r\n").endswith("after") and got.count(".") == text.count(".")


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"subject": "a\r\nBcc: eve@example.com"}, "subject"),
        ({"subject": "a\nb"}, "subject"),
        ({"subject": "a\rb"}, "subject"),
        ({"subject": "a\x85Bcc: b"}, "subject"),
        ({"subject": "a\u2028Bcc: b"}, "subject"),
        ({"subject": "a\x0bb\x0cc\x1cd"}, "subject"),
        ({"subject": "\ud800"}, "subject"),
        ({"subject": ""}, "subject"),
        ({"subject": "x" * 501}, "subject"),
        ({"subject": 7}, "subject"),
        ({"to": "ada@example.com\r\nRCPT TO:<eve@example.com>"}, "to"),
        ({"to": "ada@example.com>\r\nDATA"}, "to"),
        ({"to": "Ada <ada@example.com>"}, "to"),
        ({"to": "ada@example.com, eve@example.com"}, "to"),
        ({"to": "ada@example.com\n"}, "to"),
        ({"to": "ada"}, "to"),
        ({"to": "@example.com"}, "to"),
        ({"to": "a..b@example.com"}, "to"),
        ({"to": "ada@exämple.com"}, "to"),
        ({"to": '"a b"@example.com'}, "to"),
        ({"to": "ada@[127.0.0.1]"}, "to"),
        ({"to": "a" * 65 + "@example.com"}, "to"),
        ({"to": []}, "to"),
        ({"to": [["ada@example.com"]]}, "to"),
        ({"to": [f"a{n}@example.com" for n in range(101)]}, "to"),
        ({"to": None}, "to"),
        ({"cc": "eve@example.com\r\n"}, "cc"),
        ({"reply_to": "x\r\nBcc: eve@example.com"}, "reply_to"),
        ({"text": None}, "text"),
        ({"text": "a\0b"}, "text"),
        ({"text": "\udcff"}, "text"),
        ({"html": 7}, "html"),
        ({"bcc": "eve@example.com"}, "bcc"),
        ({"headers": {"X": "y"}}, "headers"),
    ],
)
def test_what_is_no_mail_is_said_before_anybody_is_asked(
    server: MailServer, provider: Provider, change: dict[str, Any], names: str
) -> None:
    answer = provider.perform(mail({**MAIL, **change}))
    assert answer.verdict == "not_sent" and answer.detail.startswith(f"{names}:")
    assert server.asked == []


def test_another_action_and_a_mail_that_is_too_large_are_not_sent(server: MailServer) -> None:
    small = load(config(server.port, max_bytes=500))
    assert small.perform(mail({**MAIL, "text": "x\n" * 500})).verdict == "not_sent"
    assert small.perform(mail(action="send_fax")).verdict == "not_sent"
    assert server.asked == []


# What a reply proves


@pytest.mark.parametrize(
    ("where", "reply", "verdict"),
    [
        ("MAIL", "550 5.7.1 sender not allowed", "refused"),
        ("MAIL", "451 4.3.0 try again later", "not_sent"),
        ("ada@example.com", "550 5.1.1 no such user", "refused"),
        ("ada@example.com", "554 5.7.1 blocked", "refused"),
        ("ada@example.com", "450 4.2.0 greylisted", "not_sent"),
        ("ada@example.com", "421 4.3.2 closing", "not_sent"),
        ("ada@example.com", "252 perhaps", "not_sent"),
        ("END", "554 5.6.0 this is spam", "refused"),
        ("END", "552 5.3.4 too large", "refused"),
        ("END", "451 4.3.0 not now", "refused"),
        ("END", "421 4.3.2 closing", "unknown"),
        ("END", "251 forwarded", "unknown"),
        ("END", "354 more", "unknown"),
    ],
)
def test_what_a_reply_proves(server: MailServer, provider: Provider, where: str, reply: str, verdict: str) -> None:
    server.replies[where] = reply
    answer = provider.perform(mail())
    assert (answer.verdict, answer.found) == (verdict, None)
    assert reply in answer.detail and reply in answer.body
    assert server.mails == []
    assert server.asked.count("DATA") == (where == "END")


def test_a_mail_goes_to_all_of_its_recipients_or_to_none(server: MailServer, provider: Provider) -> None:
    server.replies |= {"bob@example.com": "550 5.1.1 no such user", "cy@example.com": "450 4.2.0 later"}
    several = {**MAIL, "to": ["ada@example.com", "bob@example.com"], "cc": ["cy@example.com", "dee@example.com"]}
    answer = provider.perform(mail(several))
    assert answer.verdict == "refused" and server.mails == [] and "DATA" not in server.asked
    assert answer.detail == "Refused: bob@example.com, cy@example.com. Nothing was sent to anybody. (550 5.1.1 no such user)"
    del server.replies["bob@example.com"]
    assert provider.perform(mail(several)).verdict == "not_sent"
    assert server.mails == []


# Where the connection is lost


@pytest.mark.parametrize(
    ("point", "verdict", "kept"),
    [("MAIL", "not_sent", 0), ("RCPT", "not_sent", 0), ("before_store", "unknown", 0), ("after_store", "unknown", 1)],
)
def test_what_a_lost_connection_proves(server: MailServer, provider: Provider, point: Any, verdict: str, kept: int) -> None:
    server.drop_at = point
    answer = provider.perform(mail())
    assert (answer.verdict, len(server.mails)) == (verdict, kept)
    assert (MESSAGE_ID in answer.detail) == (verdict == "unknown"), "whoever must find out needs to know what to look for"
    assert server.asked.count("DATA") <= 1


@pytest.mark.parametrize(
    ("mode", "what", "verdict", "kept"),
    [
        ("drop_request", "EHLO", "not_sent", 0),
        ("lose_response", "MAIL", "not_sent", 0),
        ("drop_request", "RCPT", "not_sent", 0),
        ("lose_response", "RCPT", "not_sent", 0),
        ("drop_request", "DATA", "not_sent", 0),
        ("lose_response", "DATA", "not_sent", 0),
        ("drop_request", "END", "unknown", 0),
        ("lose_response", "END", "unknown", 1),
        ("hold_response", "DATA", "not_sent", 0),
        ("hold_request", "END", "unknown", 0),
        ("hold_response", "END", "unknown", 1),
        ("lose_response", "QUIT", "landed", 1),
        ("hold_request", "QUIT", "landed", 1),
    ],
)
def test_what_a_lost_word_proves(server: MailServer, mode: Any, what: str, verdict: str, kept: int) -> None:
    with Proxy(server.url) as proxy:
        proxy.arm(mode, what)
        hasty = load(config(proxy.port, timeout_s=0.5 if mode.startswith("hold") else 5))
        answer = hasty.perform(mail())
        assert (answer.verdict, len(server.mails)) == (verdict, kept), answer
        assert len(proxy.asked("^(EHLO|HELO)$")) == 1, "one connection, one try"


def test_a_mail_that_was_held_up_arrives_after_we_have_given_up(server: MailServer) -> None:
    with Proxy(server.url) as proxy:
        proxy.arm("hold_request", "END")
        assert load(config(proxy.port, timeout_s=0.5)).perform(mail()).verdict == "unknown"
        proxy.release()
        until = time.monotonic() + 20
        while not server.mails and time.monotonic() < until:
            time.sleep(0.01)
    assert [kept.message["Message-ID"] for kept in server.mails] == [MESSAGE_ID]


class Liar:
    """A server that says, after each line it hears, the next thing of a script; None hangs up. It reads nothing after DATA."""

    def __init__(self, *script: bytes | None) -> None:
        self.script, self.heard = list(script), b""
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = int(self.socket.getsockname()[1])
        self.thread = threading.Thread(target=self.serve, daemon=True)
        self.thread.start()

    def serve(self) -> None:
        connection, _ = self.socket.accept()
        with connection:
            for said in self.script:
                if said is None:
                    return
                connection.sendall(said)
                if said.startswith(b"354"):
                    continue
                while not (line := connection.recv(1)) == b"\n":
                    self.heard += line
                    if not line:
                        return
                self.heard += b"\n"
            connection.settimeout(10)
            while chunk := connection.recv(65536):
                self.heard += chunk


OPENING = (b"220 hi\r\n", b"250-liar\r\n250 SIZE 99999999\r\n", b"250 ok\r\n", b"250 ok\r\n")
"""Up to DATA."""
LARGE = {**MAIL, "text": ("x" * 70 + "\n") * 60_000}


def lied_to(*script: bytes | None, request: dict[str, Any] = MAIL, timeout_s: float = 10) -> tuple[Answer, Liar]:
    liar = Liar(*script)
    answer = load(config(liar.port, timeout_s=timeout_s)).perform(mail(request))
    liar.socket.close()
    liar.thread.join(10)
    return answer, liar


@pytest.mark.parametrize("after_354", [None, b"554 no more\r\n", b"421 closing\r\n"])
def test_a_connection_that_is_lost_before_the_last_line_has_sent_no_mail(after_354: bytes | None) -> None:
    """The mail is larger than what the connection can hold unread, so that the loss comes before its end is written."""
    said = (after_354, None) if after_354 else (None,)
    answer, liar = lied_to(*OPENING, b"354 go\r\n", *said, request=LARGE)
    assert answer.verdict in ("not_sent", "refused") and "\n.\r\n" not in liar.heard.decode()
    assert answer.verdict == "not_sent" or after_354 == b"554 no more\r\n"


@pytest.mark.parametrize(
    ("script", "verdict"),
    [
        ((b"554 nobody here\r\n",), "not_sent"),
        ((b"HTTP/1.1 400 Bad Request\r\n\r\n",), "not_sent"),
        ((b"220 " + b"x" * 10_000 + b"\r\n",), "not_sent"),
        ((None,), "not_sent"),
        ((b"220 hi\r\n", b"500 what\r\n"), "not_sent"),
        ((*OPENING, b"250 ok\r\n"), "not_sent"),
        ((*OPENING, b"554 not you\r\n"), "refused"),
    ],
)
def test_a_server_that_does_not_keep_to_the_protocol_gets_no_mail(script: tuple[bytes | None, ...], verdict: str) -> None:
    answer, liar = lied_to(*script, timeout_s=5)
    assert answer.verdict == verdict, answer
    assert b"\n.\r\n" not in liar.heard


LAST_WORDS = {
    "nothing": b"", "words": b"what?\r\n", "cut": b"250", "long": b"5" * 90_000, "bytes": b"\xff\xfe\r\n", "part": b"550-no\r\n",
    "two codes": b"250-yes\r\n550 no\r\n", "four digits": b"2500 ok\r\n",
}  # fmt: skip


def test_a_yes_that_comes_before_the_mail_has_ended_is_none() -> None:
    answer, liar = lied_to(*OPENING, b"354 go\r\n250 already\r\n", timeout_s=1)
    assert answer.verdict in ("not_sent", "unknown") and answer.found is None


@pytest.mark.parametrize("last", LAST_WORDS.values(), ids=LAST_WORDS.keys())
def test_a_last_word_that_cannot_be_read_is_doubt(last: bytes) -> None:
    class Ending(Liar):
        def serve(self) -> None:
            connection, _ = self.socket.accept()
            with connection, connection.makefile("rb") as lines:
                for said in (*OPENING, b"354 go\r\n"):
                    connection.sendall(said)
                    lines.readline()
                while lines.readline() != b".\r\n":
                    pass
                connection.sendall(last)

    liar = Ending()
    assert load(config(liar.port)).perform(mail()).verdict == "unknown"
    liar.thread.join(10)


@pytest.mark.parametrize("greeting", [b"", b"220-"])
def test_a_server_that_drips_ends_with_the_exchange(greeting: bytes) -> None:
    class Drip(Liar):
        def serve(self) -> None:
            connection, _ = self.socket.accept()
            with connection:
                for _ in range(400):
                    try:
                        connection.sendall(greeting or b"\r\n"[:0] + b"2")
                        if greeting:
                            connection.sendall(b"x\r\n")
                    except OSError:
                        return
                    time.sleep(0.05)

    began_s = time.monotonic()
    liar = Drip()
    assert load(config(liar.port, timeout_s=0.4)).perform(mail()).verdict == "not_sent"
    assert time.monotonic() - began_s < 10, "the drip would have gone on for twenty seconds"


def test_nobody_listening_and_a_name_that_leads_nowhere() -> None:
    assert load(config(1)).perform(mail()).verdict == "not_sent"
    assert load(config(25, host="a..b")).perform(mail()).verdict == "not_sent"


# TLS and log-in

HOST = "mail.example.org"


@pytest.fixture
def named(monkeypatch: pytest.MonkeyPatch) -> None:
    real: Callable[..., Any] = socket.getaddrinfo
    monkeypatch.setattr(socket, "getaddrinfo", lambda host, *args, **options: real("127.0.0.1" if host == HOST else host, *args, **options))


@pytest.mark.parametrize(("certified", "verdict"), [(HOST, "landed"), ("other.example.org", "not_sent")])
def test_tls_is_checked_against_the_name_before_anything_is_told(
    named: None, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, certified: str, verdict: str
) -> None:
    certificate, tls = certificates.make(tmp_path, certified)
    monkeypatch.setenv("MAIL_PASSWORD", PASSWORD)
    with MailServer(tls=tls) as server:
        secure = config(server.port, host=HOST, tls="starttls", ca_file=str(certificate), username=USER, password_env="MAIL_PASSWORD")
        answer = load(secure).perform(mail())
        assert (answer.verdict, len(server.mails)) == (verdict, int(verdict == "landed")), answer
        monkeypatch.setenv("MAIL_PASSWORD", "wrong")
        answer = load(secure).perform(mail())
        assert answer.verdict == "not_sent" and PASSWORD not in answer.detail and len(server.mails) == (verdict == "landed")


def test_a_server_without_tls_gets_nothing_when_tls_is_asked_for(server: MailServer) -> None:
    for mode in ("starttls", "implicit"):
        answer = load(config(server.port, tls=mode)).perform(mail())
        assert answer.verdict == "not_sent" and server.asked == []


# What it cannot do


def test_it_is_never_looked_up_called_back_or_told_of(provider: Provider) -> None:
    assert (provider.capability.lookup, dict(provider.capability.compensable)) == ("none", {})
    assert "cannot be called back" in provider.capability.irreversible["send_mail"]
    assert provider.look(sought("PO-1", None, action="send_mail")).outcome == "unreachable"
    assert provider.compensate(mail(action="recall_mail")).verdict == "not_sent"
    with pytest.raises(SignatureRefused):
        provider.read_webhook({}, b"{}", NOW)


@pytest.mark.parametrize(
    ("change", "names"),
    [
        ({"host": ""}, "host"),
        ({"host": 7}, "host"),
        ({"port": 0}, "port"),
        ({"port": "25"}, "port"),
        ({"port": True}, "port"),
        ({"tls": "sometimes"}, "tls"),
        ({"from": "Agent <agent@example.org>"}, "from"),
        ({"from": "a@example.org\r\nX: y"}, "from"),
        ({"from_name": "a\r\nb"}, "from_name"),
        ({"helo": "a b"}, "helo"),
        ({"timeout_s": 0}, "timeout_s"),
        ({"max_bytes": 0}, "max_bytes"),
        ({"username": "me"}, "password_env"),
        ({"username": "me", "password_env": "NOT_SET"}, "in the clear"),
        ({"username": "me", "password_env": "NOT_SET", "tls": "starttls"}, "NOT_SET"),
        ({"ca_file": "x.pem"}, "ca_file"),
        ({"ca_file": "/no/such/file", "tls": "starttls"}, "ca_file"),
        ({"ca_file": 7.5, "tls": "starttls"}, "ca_file"),
        ({"password": "secret"}, "password"),
        ({"capability": {"lookup": "strong"}}, "capability.lookup"),
        ({"capability": {"compensable": {"send_mail": "recall"}}}, "capability.compensable"),
    ],
)
def test_settings_that_cannot_work_are_refused_at_once(change: dict[str, Any], names: str) -> None:
    with pytest.raises(ProviderConfigError, match=names):
        load(config(25, **change))
