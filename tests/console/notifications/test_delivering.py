"""Messages arrive at a real receiver: signed, again after a failure, and recognisable when they come twice."""

from __future__ import annotations

import os
import subprocess
import sys
import threading

import pytest
from django.contrib.auth.models import Group, User
from django.core import mail

from console.notifications import delivering, endpoints, following, secrets, sending, states
from console.notifications.endpoints import Wanted
from console.notifications.models import Delivery, Endpoint, Message, Try
from reconciliation import health
from runs.models import Event
from tests.console.notifications.conftest import KEEPER
from tests.console.receiving import Receiver
from tests.makers import let_time_pass


def happen(name: str = "supplier") -> None:
    health.not_reached(name, "401", denied=True)
    following.follow()


def fresh(endpoint: Endpoint) -> Endpoint:
    return Endpoint.objects.get(pk=endpoint.pk)


def test_a_message_arrives_signed_by_every_live_secret(hook, receiver):
    endpoint = hook()
    old = secrets.of(endpoint)[0]
    new = secrets.of(endpoints.rotate(KEEPER, endpoint.pk))[0]
    happen()
    assert delivering.deliver_due() == 1
    (got,) = receiver.got
    for secret in (old, new):
        assert got.verified(secret)["data"]["reference"] == "supplier"
    assert got.path == "/hook" and got.id == Message.objects.get().webhook_id
    endpoints.retire(KEEPER, endpoint.pk)
    happen("bank")
    delivering.deliver_due()
    assert receiver.got[1].verified(new)
    with pytest.raises(Exception, match="No matching signature"):
        receiver.got[1].verified(old)


@pytest.mark.parametrize("status", [500, 404, 302])
def test_a_refused_message_comes_again_later_under_the_same_id(hook, receiver, status):
    endpoint = hook()
    receiver.answers = [status]
    happen()
    assert delivering.deliver_due() == 0 and len(receiver.got) == 1
    assert delivering.deliver_due() == 0 and len(receiver.got) == 1, "not before its time"
    assert fresh(endpoint).failing_since is not None
    let_time_pass(states.BACKOFF_S[0])
    assert delivering.deliver_due() == 1
    assert len(set(receiver.ids)) == 1 and receiver.got[0].raw == receiver.got[1].raw
    assert list(Try.objects.order_by("number").values_list("delivered", "status")) == [(False, status), (True, 204)]
    assert fresh(endpoint).failing_since is None and fresh(endpoint).failures == 0


def test_a_receiver_that_does_not_answer_is_given_up_in_time(hook, receiver, monkeypatch):
    hook()
    monkeypatch.setattr(sending, "TIMEOUT_S", 0.3)
    stuck = threading.Event()
    receiver.answers = [lambda: stuck.wait(20) and None]
    happen()
    assert delivering.deliver_due() == 0
    stuck.set()
    let_time_pass(states.BACKOFF_S[0])
    assert delivering.deliver_due() == 1 and len(set(receiver.ids)) == 1
    assert "Timeout" in Try.objects.get(number=1).detail


SENDER = "import django; django.setup(); from console.notifications import delivering; delivering.deliver_due()"


def test_a_sender_killed_between_sending_and_recording_sends_the_same_message_again(hook, receiver: Receiver):
    hook()
    happen()
    dead = threading.Event()
    receiver.answers = [lambda: dead.wait(60) and None]
    guard = f'{{"schemes": ["http"], "ports": [{receiver.port}], "private_networks": ["127.0.0.0/8"]}}'
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "console.settings", "COUNTERMAND_NOTIFICATIONS_GUARD": guard}
    sender = subprocess.Popen([sys.executable, "-W", "ignore", "-c", SENDER], env=environment)
    receiver.wait_for(1)
    sender.kill()
    sender.wait()
    dead.set()
    assert delivering.deliver_due() == 0, "its take has not run out"
    let_time_pass(delivering.TAKEN_FOR.total_seconds() + 1)
    assert delivering.deliver_due() == 1
    assert len(receiver.got) == 2 and len(set(receiver.ids)) == 1 and receiver.got[0].raw == receiver.got[1].raw
    assert list(Try.objects.order_by("number").values_list("delivered", flat=True)) == [None, True]


def test_a_sender_that_comes_back_late_moves_nothing(hook, receiver):
    hook()
    happen()
    late = delivering.take()
    assert late is not None
    let_time_pass(delivering.TAKEN_FOR.total_seconds() + 1)
    assert delivering.deliver_due() == 1
    delivering.record(late, sending.Outcome(False, "it took too long"))
    assert Delivery.objects.get().state == states.DELIVERED


def test_a_delivery_is_taken_by_one_and_only_a_few_at_once(hook):
    hook()
    for name in "abcd":
        happen(name)
    taken = [delivering.take() for _ in range(4)]
    assert [one is not None for one in taken] == [True] * delivering.AT_ONCE + [False] * (4 - delivering.AT_ONCE)
    assert len({one.pk for one in taken if one}) == delivering.AT_ONCE


def test_one_failing_receiver_keeps_no_other_waiting(hook, receiver):
    hook(name="Broken", target=f"http://127.0.0.1:{receiver.port}/broken")
    hook(name="Well")
    receiver.answers = [500]
    happen("a")
    happen("b")
    delivering.deliver_due()
    assert sorted(one.path for one in receiver.got) == ["/broken", "/hook", "/hook"]


def test_a_message_is_given_up_after_the_last_try(hook, receiver, settings):
    hook()
    happen()
    receiver.answers = [500] * 20
    for pause_s in states.BACKOFF_S:
        delivering.deliver_due()
        let_time_pass(pause_s)
    delivering.deliver_due()
    assert Delivery.objects.get().state in (states.GIVEN_UP, states.DROPPED)
    assert len(receiver.got) == len(states.BACKOFF_S) + 1


def test_a_long_failure_disables_the_endpoint_and_others_are_told(hook, receiver):
    admin = User.objects.create(username="ada", email="ada@example.com")
    admin.groups.set([Group.objects.get(name="Admin")])
    broken = hook(states.PROVIDER_DOWN, name="Broken", target=f"http://127.0.0.1:{receiver.port}/broken")
    hook(states.UNDO_FAILED, name="Other")
    Endpoint.objects.filter(pk=broken.pk).update(failures=states.FAILURES_MIN)
    happen()
    receiver.answers = [500]
    delivering.deliver_due()
    assert fresh(broken).enabled, "not for a short failure"
    let_time_pass(states.DISABLE_AFTER.total_seconds())
    receiver.answers = [500]
    delivering.deliver_due()
    broken = fresh(broken)
    assert not broken.enabled and "Nothing has arrived there since" in broken.disabled_why
    assert Event.objects.filter(kind="notification.endpoint_disabled", subject=str(broken.pk)).count() == 1
    assert Delivery.objects.get(endpoint=broken).state == states.DROPPED
    following.follow()
    delivering.deliver_due()
    assert receiver.got[-1].path == "/hook" and b"endpoint_disabled" in receiver.got[-1].raw
    assert [one.to for one in mail.outbox] == [["ada@example.com"]]
    happen("bank")
    delivering.deliver_due()
    assert [one.path for one in receiver.got].count("/broken") == 2


def test_a_receiver_that_is_gone_is_disabled_at_once(hook, receiver):
    endpoint = hook()
    receiver.answers = [410]
    happen()
    delivering.deliver_due()
    assert not fresh(endpoint).enabled and "410" in fresh(endpoint).disabled_why


def test_what_has_become_forbidden_is_not_reached(hook, receiver, settings):
    hook()
    happen()
    settings.NOTIFICATIONS_GUARD = {"schemes": ["http"], "ports": [receiver.port]}
    assert delivering.deliver_due() == 0
    assert receiver.got == [] and "is no public address" in Try.objects.get().detail


def test_an_email_says_the_same_and_carries_the_same_id(log):
    endpoints.add(KEEPER, Wanted("Night shift", states.MAIL, "night@example.com", tuple(states.KINDS)))
    happen()
    assert delivering.deliver_due() == 1
    (letter,) = mail.outbox
    assert letter.to == ["night@example.com"] and letter.subject == "Countermand: A provider is down (supplier)"
    assert letter.extra_headers["Message-ID"] == f"<{Message.objects.get().webhook_id}@localhost>"
    assert "/cases/" in letter.body


def test_a_mail_server_that_is_down_is_tried_again(log, settings):
    endpoints.add(KEEPER, Wanted("Night shift", states.MAIL, "night@example.com", tuple(states.KINDS)))
    happen()
    settings.EMAIL_BACKEND, settings.EMAIL_HOST, settings.EMAIL_PORT = "django.core.mail.backends.smtp.EmailBackend", "127.0.0.1", 1
    assert delivering.deliver_due() == 0 and "refused" in Try.objects.get().detail.lower()
    settings.EMAIL_BACKEND = "django.core.mail.backends.locmem.EmailBackend"
    let_time_pass(states.BACKOFF_S[0])
    assert delivering.deliver_due() == 1
