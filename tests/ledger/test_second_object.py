"""A second object at the provider for one operation is never taken for the first."""

import pytest

from ledger import outcomes, surplus
from ledger.facts import effect_facts
from ledger.providers.base import Look
from ledger.sentences import sentence
from reconciliation import looks, webhooks
from runs import transition
from runs.wording import plain
from tests import fakes
from tests.fakes import webhook
from tests.makers import again, look, new_run, open_cases, refused, send, settle, sweep, tell

pytestmark = pytest.mark.usefixtures("counters")


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


def twice(fake):
    """An effect that a webhook found a second object of, and its case."""
    sent = send(*new_run(), provider="fake")
    tell(sent, "landed", external_id="S-1", amount=12500, currency="EUR")
    hear(sent, external_id="S-2")
    sweep()
    return sent, open_cases()[0]


def test_a_person_names_the_surplus_which_can_then_be_undone(fake):
    sent, case = twice(fake)
    assert surplus.named(again(sent)) == []
    settle(case, "surplus_named", surplus=("S-1",), seen_where="", seen_at=None)
    effect = again(sent)
    assert surplus.named(effect) == [surplus.Found("S-1", 12500, "EUR")]
    assert (effect.state, effect.external_id, effect.known_by) == ("duplicated", "S-2", "")
    assert "Too many: S-1." in plain(sentence(effect_facts(effect, transition.clock())))
    assert not open_cases()


@pytest.mark.parametrize(("named", "code"), [((), "evidence_required"), (("S-3",), "invalid"), (("S-1", "S-2"), "invalid")])
def test_the_surplus_is_some_of_what_was_found_and_never_all(fake, named, code):
    sent, case = twice(fake)
    with refused(code) as told:
        settle(case, "surplus_named", surplus=named)
    assert told.value.facts["field"] == "surplus"
    assert open_cases() == [case]


def test_a_third_object_opens_the_case_again(fake):
    sent, case = twice(fake)
    settle(case, "surplus_named", surplus=("S-2",))
    hear(sent, external_id="S-2")
    sweep()
    assert not open_cases(), "what was judged is not asked again"
    hear(sent, external_id="S-3")
    sweep()
    (reopened,) = open_cases()
    assert (reopened.pk, reopened.reopened) == (case.pk, 1)
    assert reopened.facts["external_ids"] == ["S-1", "S-2", "S-3"]
    settle(reopened, "surplus_named", surplus=("S-2", "S-3"))
    assert [one.external_id for one in surplus.named(again(sent))] == ["S-2", "S-3"]


def test_a_look_that_finds_two_names_both_with_their_amounts(fake):
    run, token = new_run()
    sent = send(run, token, provider="fake")
    tell(sent, "unknown")
    one, other = fakes.found(looks.sought(again(sent))).objects[0], fakes.found(looks.sought(again(sent)), external_id="S-2").objects[0]
    fake.answer = Look("found", (one, other), http_status=200)
    look(6)
    sweep()
    assert again(sent).state == "duplicated"
    settle(open_cases()[0], "surplus_named", surplus=("S-2",))
    assert surplus.named(again(sent)) == [surplus.Found("S-2", 12500, "EUR")]
