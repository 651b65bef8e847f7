"""A second object at the provider for one operation is never taken for the first."""

import pytest

from ledger import outcomes
from reconciliation import webhooks
from tests.fakes import webhook
from tests.makers import again, assert_counters, new_run, open_cases, refused, send, sweep, tell

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture(autouse=True)
def counters():
    yield
    assert_counters()


def hear(sent, state="landed", **values):
    """A webhook about the sent effect, received and processed."""
    effect = sent.effect
    told = {"amount": effect.amount, "currency": effect.currency, "at": None} | values
    webhooks.receive("fake", {"signature": "good"}, webhook(state, effect.pk, reference=effect.provider_reference, **told))
    webhooks.process_due()


def test_a_webhook_about_another_object_means_that_it_happened_twice(fake):
    sent = send(*new_run(), provider="fake")
    assert tell(sent, "landed", external_id="S-1") == "applied"
    hear(sent, external_id="S-2")
    assert again(sent).state == "duplicated"
    sweep()
    (case,) = open_cases()
    assert (case.kind, case.facts["external_ids"]) == ("duplicated", ["S-1", "S-2"])


def test_the_same_object_again_agrees(fake):
    sent = send(*new_run(), provider="fake")
    tell(sent, "landed", external_id="S-1")
    hear(sent, external_id="S-1")
    assert again(sent).state == "landed"


def test_a_senders_second_object_is_a_contradiction():
    sent = send(*new_run())
    tell(sent, "landed", external_id="S-1")
    assert tell(sent, "landed", external_id="S-2") == "conflicts"
    assert again(sent).state == "conflicted"


def test_nobody_relies_on_what_was_undone(fake):
    sent = send(*new_run(), provider="fake")
    tell(sent, "landed", external_id="S-1")
    hear(sent, "reversed", external_id="S-1")
    assert again(sent).state == "reversed"
    other, token = new_run(holder="w-2")
    with refused("already_landed"):
        send(other, token, provider="fake", if_exists="reuse")
    assert outcomes.is_another_object(again(sent), outcomes.Fact("look", "landed", external_id="S-2")) is False
