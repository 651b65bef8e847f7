"""The queue of cases and each case's page: what is known, who may do what, and what becomes of a finding."""

import hashlib

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile

from reconciliation import webhooks
from reconciliation.models import Case
from runs import leases
from runs.errors import Invalid
from tests.console.browsing import HTMX, person, text
from tests.fakes import FAKE, webhook
from tests.makers import WORKER, again, cancel, fresh, let_time_pass, new_run, open_cases, send, settle, sweep, tell

pytestmark = pytest.mark.usefixtures("database")


def doubtful(fake, ref: str = "PO-1042", amount: int = 12500, currency: str = "EUR", holder: str = "w-7") -> Case:
    """The case of an effect whose sender was never confirmed stopped and which no look finds."""
    run, token = new_run(holder=holder)
    effect = send(run, token, provider=FAKE, ref=ref, amount=amount, currency=currency).effect
    for _ in range(8):
        let_time_pass(900)
        sweep()
    return Case.objects.get(effect=effect)


def conflicting() -> Case:
    run, token = new_run()
    sent = send(run, token)
    tell(sent, "landed", amount=12500, currency="EUR")
    tell(sent, "refused")
    sweep()
    return open_cases(run=run)[0]


def claimed(case: Case, client=None):
    client = client or person()
    assert client.post(f"/cases/{case.ref}/claim").status_code == 302
    return client


PNG = b"\x89PNG\r\n\x1a\n" + bytes(20)
GOOD = {"seen_where": "provider_dashboard", "provider_time": "2026-03-02T14:02:07"}


# The queue


def test_an_empty_queue_says_so_and_how_old_the_oldest_unknown_is():
    assert "Nothing waits unclaimed." in text(person().get("/cases/"))
    run, token = new_run()
    tell(send(run, token), "unknown")
    let_time_pass(40)
    said = text(person().get("/cases/?tab=all"))
    assert "Nothing needs a person. Oldest unknown right now: 4" in said and "being checked automatically." in said


def test_the_largest_sums_come_first_each_currency_by_itself(fake):
    small = doubtful(fake, "PO-1", 100)
    yen = doubtful(fake, "PO-2", 900_000, "JPY", "w-8")
    large = doubtful(fake, "PO-3", 500_000, "EUR", "w-9")
    response = person().get("/cases/")
    refs = [row["case"]["ref"] for row in response.context["rows"]]
    assert refs == [large.ref, small.ref, yen.ref]
    said = text(response)
    assert "€5,000.00 EUR" in said and "¥900,000 JPY" in said and "of 4 h" in said and "PO-2" in said


def test_tabs_show_what_is_mine_and_what_was_settled(fake):
    case = doubtful(fake)
    client = claimed(case)
    assert case.ref not in text(client.get("/cases/")) and case.ref in text(client.get("/cases/?tab=mine"))
    assert case.ref not in text(person("Olga").get("/cases/?tab=mine")) and case.ref in text(person("Olga").get("/cases/?tab=all"))
    assert client.get("/cases/").context["nav"][1]["count"] == 1
    settle(open_cases()[0], "happened", actor=_actor(client))
    assert case.ref in text(client.get("/cases/?tab=settled")) and case.ref not in text(client.get("/cases/?tab=all"))


def _actor(client):
    from django.contrib.auth.models import User

    from console.auth import person_actor

    return person_actor(User.objects.get(pk=client.session["_auth_user_id"]))


# One case


def test_what_we_know_and_what_we_do_not(fake):
    case = doubtful(fake)
    said = text(person().get(f"/cases/{case.ref}/")).partition("Needs a person / ")[2]
    assert "A person must find out. We sent this order at" in said and "worker w-7 was never confirmed stopped" in said
    assert "Look it up by reference PO-1042" in said
    assert str(case.effect_id) in said, "the idempotency key that we sent"
    assert said.count("A look at Fake nothing found") >= 2, said
    assert "Whether it happened." in said and "Whether worker w-7 is still alive" in said
    assert "The request we sent (redacted)" in said
    assert "Claim this first" in said and "Save finding" not in said
    assert "retry" not in said.lower() and "try again" not in said.lower()


def test_links_to_look_it_up_come_from_the_provider(fake):
    case = doubtful(fake, "PO/1 2")
    fake.promise(lookup_url="https://fake.example/orders?ref={reference}")
    page = person().get(f"/cases/{case.ref}/").content.decode()
    assert 'href="https://fake.example/orders?ref=PO%2F1%202"' in page and 'rel="noreferrer noopener"' in page
    fake.promise(lookup_url="javascript:alert(1)")
    assert "javascript:" not in person().get(f"/cases/{case.ref}/").content.decode()


def test_others_on_the_same_reference_are_shown(fake):
    case = doubtful(fake)
    run, token = new_run(holder="w-8")
    other = send(run, token, provider=FAKE, action="create_invoice", step="invoice").effect
    assert other.ref in text(person().get(f"/cases/{case.ref}/"))


def test_claiming_opens_the_form_for_one_person(fake):
    case = doubtful(fake)
    mine = claimed(case)
    said = text(mine.get(f"/cases/{case.ref}/"))
    assert "You claimed this." in said and "Save finding" in said and "How do you know the sender is gone?" in said
    other = person("Olga")
    said = text(other.get(f"/cases/{case.ref}/"))
    assert "Sam Support claimed this." in said and "only they can record a finding" in said and "Take over" in said
    response = other.post(f"/cases/{case.ref}/claim", follow=True)
    assert "Sam Support has claimed" in text(response)


def test_taking_over_is_explicit(fake):
    case = doubtful(fake)
    claimed(case)
    other = person("Olga")
    dialog = text(other.get(f"/cases/{case.ref}/take-over", **HTMX))
    assert f"Take over {case.ref}? Sam Support has claimed this and may be writing." in dialog and "Leave it with Sam Support" in dialog
    said = text(other.post(f"/cases/{case.ref}/take-over", follow=True))
    assert "You took over" in said and "You claimed this." in said and "Took it over from Sam Support" in said


def test_a_claim_lapses(fake):
    case = doubtful(fake)
    claimed(case)
    let_time_pass(1900)
    assert "Claim and check" in text(person("Olga").get(f"/cases/{case.ref}/"))


def test_it_happened_settles_the_case_and_says_so_on_the_run(fake):
    case = doubtful(fake)
    client = claimed(case)
    form = GOOD | {"verdict": "happened", "external_id": "SO-7", "notes": "on page 2"}
    response = client.post(f"/cases/{case.ref}/finding", form, follow=True)
    assert f"{case.ref} is settled." in text(response) and "Settled by Sam Support" in text(response)
    assert "It happened Evidence: reference SO-7, seen in provider dashboard, at 2 Mar 2026 14:02:07 UTC by their clock" in text(response)
    assert again(case.effect).state == "landed"
    said = text(client.get(f"/runs/{case.run.ref}/"))
    assert "Sam Support found" in said and "it happened" in said and "reference SO-7" in said


@pytest.mark.parametrize(
    "form, field, told",
    [
        ({"verdict": "happened"}, "external_id", "provider's own reference"),
        ({"verdict": "did_not_happen", "notes": "trust me"}, "seen_where", "free text alone is not evidence"),
        (GOOD | {"verdict": "happened_differently", "external_id": "S"}, "amount", "Give the amount"),
        (GOOD | {"verdict": "happened_differently", "external_id": "S", "amount": "12.345"}, "amount", "more precise than EUR"),
        (GOOD | {"verdict": "happened_differently", "external_id": "S", "amount": "-5"}, "amount", "write it like 125.00"),
        ({"verdict": "did_not_happen", "seen_where": "other", "provider_time": "yesterday"}, "provider_time", "Use a day and time"),
        (GOOD | {"verdict": "did_not_happen", "seen_where": "moon"}, "seen_where", "must be one of"),
        ({"verdict": "send_again"}, "verdict", "must be one of"),
        ({}, "verdict", "must be one of"),
    ],
)
def test_what_is_missing_is_said_at_its_field_and_nothing_is_lost(fake, form, field, told):
    case = doubtful(fake)
    client = claimed(case)
    response = client.post(f"/cases/{case.ref}/finding", form | {"notes": "keep me"}, **HTMX)
    assert response.status_code in (400, 422)
    assert told in text(response) and response.context["errors"].keys() == {field}
    assert "keep me" in response.content.decode() and 'id="finding"' in response.content.decode()
    assert "<html" not in response.content.decode()
    assert Case.objects.get(pk=case.pk).state == "claimed" and again(case.effect).state == "ambiguous"


def test_did_not_happen_stays_open_while_the_sender_may_be_alive(fake):
    case = doubtful(fake)
    client = claimed(case)
    form = GOOD | {"verdict": "did_not_happen"}
    response = client.post(f"/cases/{case.ref}/finding", form, **HTMX)
    assert "The case stays open. Kept as evidence. Worker w-7 was never confirmed stopped" in text(response)
    assert "kept as evidence, the case stayed open" in text(client.get(f"/cases/{case.ref}/"))
    done = client.post(f"/cases/{case.ref}/finding", form | {"sender_gone": "I unplugged the host"}, **HTMX)
    assert done.status_code == 204 and done.headers["HX-Redirect"] == f"/cases/{case.ref}/"
    assert again(case.effect).state == "absent"
    assert "sender gone: I unplugged the host" in text(client.get(f"/cases/{case.ref}/"))


def test_a_different_amount_is_read_in_the_currency(fake):
    case = doubtful(fake, amount=12345, currency="KWD")
    client = claimed(case)
    form = GOOD | {"verdict": "happened_differently", "external_id": "SO-7", "amount": "12.300"}
    client.post(f"/cases/{case.ref}/finding", form)
    effect = again(case.effect)
    assert (effect.state, effect.landed_amount) == ("landed", 12300)
    assert "It landed for 12.300 KWD, not 12.345 KWD." in text(client.get(f"/runs/{case.run.ref}/"))


def test_passing_on_gives_it_back_with_the_notes(fake):
    case = doubtful(fake)
    client = claimed(case)
    response = client.post(f"/cases/{case.ref}/finding", {"verdict": "pass_on", "notes": "their site is down"}, follow=True)
    assert "back in the queue" in text(response) and case.ref in text(response)
    assert "passed it on: their site is down" in text(client.get(f"/cases/{case.ref}/"))


def test_it_can_only_stay_unknown_for_ever_when_two_people_say_so(fake):
    case = doubtful(fake)
    client = claimed(case)
    client.post(f"/cases/{case.ref}/finding", {"verdict": "cannot_be_known", "notes": "they went bankrupt"})
    said = text(client.get(f"/cases/{case.ref}/"))
    assert "A second person must confirm" in said and "You can’t confirm it" in said and "I agree" not in said
    assert (
        client.post(f"/cases/{case.ref}/confirm", {"agree": "yes"}, follow=True).content.decode().count("someone else must confirm it") == 1
    )
    other = person("Olga")
    said = text(other.get(f"/cases/{case.ref}/"))
    assert "Sam Support found: it can't be known. they went bankrupt" in said and "its reference stays taken" in said
    response = other.post(f"/cases/{case.ref}/confirm", {"agree": "yes"}, follow=True)
    assert f"{case.ref} is settled." in text(response)
    assert "It can't be known." in text(other.get(f"/runs/{case.run.ref}/"))
    assert fresh(case.run).unknowable == 1


def test_a_second_person_may_disagree(fake):
    case = doubtful(fake)
    claimed(case).post(f"/cases/{case.ref}/finding", {"verdict": "cannot_be_known"})
    response = person("Olga").post(f"/cases/{case.ref}/confirm", {"agree": "no"}, follow=True)
    assert "is back in the queue" in text(response) and Case.objects.get(pk=case.pk).state == "open"


def test_a_late_answer_is_shown_to_whoever_claimed_it(fake):
    case = doubtful(fake)
    client = claimed(case)
    tell(case.effect, "landed", amount=12500, currency="EUR")
    said = text(client.get(f"/cases/{case.ref}/"))
    assert "The sender's answer has just answered" in said or "has just answered: it happened" in said
    assert "Your draft is kept below." in said


def test_answers_that_disagree_are_put_side_by_side():
    case = conflicting()
    said = text(person().get(f"/cases/{case.ref}/"))
    assert "Answers disagree" in said and "A person must decide. Nothing is repeated meanwhile." in said
    assert "The sender's answer it happened" in said and "The sender's answer it was refused" in said


def test_checking_now_asks_the_provider(fake):
    case = doubtful(fake)
    response = person().post(f"/cases/{case.ref}/check", follow=True)
    assert "Asked for a check now." in text(response) or "nothing to look for" in text(response)


def test_a_case_about_a_run_settles_itself():
    run, token = new_run(holder="w-7", ttl_s=600)
    cancel(run)
    for _ in range(2):
        let_time_pass(500)
        leases.heartbeat(WORKER, run.pk, token)
    sweep()
    case = open_cases(run=run)[0]
    said = text(person().get(f"/cases/{case.ref}/"))
    assert "Worker w-7 still answers but has not stopped." in said and "this settles itself" in said
    assert "Claim and check" not in said and "Save finding" not in said
    on_run = text(person().get(f"/runs/{run.ref}/"))
    assert case.ref in on_run and "Worker w-7 still answers but has not stopped." in on_run
    leases.stopped(WORKER, run.pk, token)
    sweep()
    assert "It settled itself" in text(person().get(f"/cases/{case.ref}/"))


def test_a_file_goes_with_the_finding_and_is_there_afterwards(fake, tmp_path, settings):
    settings.STORAGES = {**settings.STORAGES, "evidence": {**settings.STORAGES["evidence"], "OPTIONS": {"location": tmp_path}}}
    case = doubtful(fake)
    client = claimed(case)
    form = GOOD | {"verdict": "happened", "external_id": "", "file": SimpleUploadedFile("shot.png", PNG)}
    refused = client.post(f"/cases/{case.ref}/finding", form, **HTMX)
    assert refused.status_code == 422 and "shot.png" in text(client.get(f"/cases/{case.ref}/")), "a missing field loses no file"
    client.post(f"/cases/{case.ref}/finding", GOOD | {"verdict": "happened", "external_id": "SO-7"})
    said = text(person("Ode", "Auditor").get(f"/cases/{case.ref}/"))
    digest = hashlib.sha256(PNG).hexdigest()
    assert "kept by Sam Support at" in said and digest in said
    assert f"Kept a file: shot.png (SHA-256 {digest})" in said and "by their clock, 1 file" in said


def test_a_file_that_is_not_kept_says_so_at_its_field(fake):
    case = doubtful(fake)
    form = GOOD | {"verdict": "happened", "external_id": "SO-7", "file": SimpleUploadedFile("page.html", b"<script>")}
    response = claimed(case).post(f"/cases/{case.ref}/finding", form, **HTMX)
    assert response.context["errors"].keys() == {"file"} and "html is not kept" in text(response)
    assert again(case.effect).state == "ambiguous", "and the finding was not saved without it"


def test_a_form_that_is_too_large_is_told_so(fake, settings):
    case = doubtful(fake)
    client = claimed(case)
    settings.EVIDENCE_BYTES_MAX = 10
    form = GOOD | {"verdict": "happened", "file": SimpleUploadedFile("a.png", b"x" * 300_000)}
    response = client.post(f"/cases/{case.ref}/finding", form)
    assert response.status_code == 413 and "A file may have 10 bytes at most." in text(response)


def test_each_choice_says_what_saving_it_does(fake, settings):
    case = doubtful(fake)
    client = claimed(case)
    said = text(client.get(f"/cases/{case.ref}/"))
    assert f"If you save this: The action becomes “Landed”. Nothing of {case.run.ref} is in doubt any more." in said
    assert "If you save this: The action becomes “Did not happen”." in said
    cancel(case.run)
    settings.SECOND_PERSON_OVER = {"EUR": "100.00"}
    fake.promise(compensable={"create_order": "cancel_order"})
    said = text(client.get(f"/cases/{case.ref}/"))
    assert (
        "A second person confirms first. Then the action becomes “Landed — confirmed after the cancel”. An undo can be asked for." in said
    )


def test_over_an_amount_the_page_asks_for_a_second_person(fake, settings):
    settings.SECOND_PERSON_OVER = {"EUR": "100.00"}
    case = doubtful(fake)
    client = claimed(case)
    response = client.post(f"/cases/{case.ref}/finding", GOOD | {"verdict": "happened", "external_id": "SO-7"}, follow=True)
    assert "Over €100.00 EUR a second person must confirm it." in text(response) and "I agree" not in text(response)
    other = person("Olga")
    said = text(other.get(f"/cases/{case.ref}/"))
    assert "Sam Support found: it happened." in said and "reference SO-7" in said and "I agree: it happened" in said
    said = text(other.post(f"/cases/{case.ref}/confirm", {"agree": "yes"}, follow=True))
    assert "It happened — found by Sam Support, confirmed" in said
    assert again(case.effect).state == "landed"


def test_a_reopened_case_shows_what_was_found_before(fake):
    case = conflicting()
    client = claimed(case)
    client.post(f"/cases/{case.ref}/finding", GOOD | {"verdict": "happened", "external_id": "S-1"})
    tell(case.effect, "refused", response={"another": "answer"})
    sweep()
    said = text(client.get(f"/cases/{case.ref}/"))
    assert "This case was settled before and opened again. Sam Support had found at" in said
    assert "It happened. Nothing of that was overwritten." in said


def test_cases_are_found_by_how_their_reference_begins(fake):
    one, other = doubtful(fake, "PO-77"), doubtful(fake, "INV-1", holder="w-8")
    client = person()
    for words in ("PO-77", "PO-", one.ref.lower(), one.run.ref):
        said = text(client.get("/cases/", {"q": words}))
        assert one.ref in said and other.ref not in said, words
    assert "No case here is called nothing." in text(client.get("/cases/", {"q": "nothing"}))
    assert one.run.ref in text(client.get("/runs/", {"q": "PO-7"})), "and so is the run, by what it did"


def test_an_orphan_is_given_to_the_action_it_belongs_to(fake):
    run, token = new_run()
    sent = send(run, token, provider=FAKE)
    webhooks.receive(FAKE, {"signature": "good"}, webhook("landed", reference="THEIRS-1", external_id="S-77"))
    webhooks.process_due()
    (case,) = open_cases(kind="orphan")
    client = claimed(case)
    assert "Our action (E-…)" in text(client.get(f"/cases/{case.ref}/"))
    refused = client.post(f"/cases/{case.ref}/finding", {"verdict": "belongs_to", "belongs_to": "E-nonsense"}, **HTMX)
    assert refused.context["errors"].keys() == {"belongs_to"}
    said = text(client.post(f"/cases/{case.ref}/finding", {"verdict": "belongs_to", "belongs_to": sent.effect.ref}, follow=True))
    assert f"Now evidence of {sent.effect.ref}" in said and f"It belongs to one of our actions: {sent.effect.ref}" in said
    assert again(sent).state == "landed"


def test_how_providers_stand(fake):
    with pytest.raises(Invalid):
        webhooks.receive(FAKE, {"signature": "bad"}, b"{}")
    doubtful(fake)
    said = text(person("Ode", "Auditor").get("/cases/providers"))
    assert "1: no live secret made the signature over these bytes" in said and "Answered" in said


# Doing it again


def test_another_occurrence_is_opened_on_purpose(fake):
    run, token = new_run()
    sent = send(run, token, provider=FAKE)
    client = person()
    url = f"/effects/{sent.effect.ref}/again"
    dialog = text(client.get(url, **HTMX))
    assert "Do order PO-1042 again?" in dialog and "This sends nothing." in dialog
    refused = client.post(url, {"reason": "stolen"})
    assert refused.status_code == 409 and "must be known before it is done again" in text(refused)
    tell(sent, "landed")
    assert "say why" in text(client.post(url, {"reason": " "}))
    offered = f'href="{url}"'
    assert offered in client.get(f"/runs/{run.ref}/").content.decode()
    assert offered not in person("Ode", "Auditor").get(f"/runs/{run.ref}/").content.decode()
    (button,) = client.get("/live/actions", {"id": f"effect-actions-{sent.effect.pk}"}).json()["items"]
    assert offered in button["html"]
    said = text(client.post(url, {"reason": "stolen"}, follow=True))
    assert "Occurrence 2 is open: the first run that names it may send PO-1042#2." in said
    assert person("Ode", "Auditor").get(url).status_code == 403


# Who may


def test_an_auditor_reads_and_may_do_nothing(fake):
    case = doubtful(fake)
    auditor = person("Ode", "Auditor")
    said = text(auditor.get(f"/cases/{case.ref}/"))
    assert "A person must find out." in said and "Claim and check" not in said
    for path in ("claim", "take-over", "confirm", "finding"):
        response = auditor.post(f"/cases/{case.ref}/{path}", GOOD | {"verdict": "happened", "external_id": "x", "agree": "yes"})
        assert response.status_code == 403, path
    assert Case.objects.get(pk=case.pk).state == "open"


def test_a_form_without_its_token_does_nothing(fake):
    case = doubtful(fake)
    for path in ("claim", "take-over", "confirm", "finding", "check"):
        assert person(enforce_csrf_checks=True).post(f"/cases/{case.ref}/{path}").status_code == 403
    assert Case.objects.get(pk=case.pk).state == "open"


def test_an_unknown_case_is_not_found():
    response = person().get("/cases/Q-0000000000/")
    assert response.status_code == 404 and "No case called Q-0000000000." in text(response)
    assert person().get("/cases/zzz/claim").status_code == 405


def test_a_settled_case_opens_again_on_contradiction(fake):
    case = doubtful(fake)
    client = claimed(case)
    client.post(f"/cases/{case.ref}/finding", GOOD | {"verdict": "did_not_happen", "sender_gone": "host is off"})
    assert "If an answer contradicts it later, it opens again" in text(client.get(f"/cases/{case.ref}/"))
    tell(case.effect, "landed", amount=12500, currency="EUR")
    sweep()
    reopened = open_cases(effect=case.effect)[0]
    said = text(client.get(f"/cases/{reopened.ref}/"))
    assert "Answers disagree" in said or "disagree" in said


def test_the_way_to_how_providers_stand(fake):
    """From a run in doubt and its case; and the page claims no more than it keeps: it is of one moment."""
    sent = doubtful(fake)
    run_page = person().get(f"/runs/{fresh(sent.effect.run).ref}/").content.decode()
    assert '<a class="no-print" id="run-providers" href="/cases/providers">Do the providers answer?</a>' in run_page
    page = person().get("/cases/providers")
    assert "As of " in text(page) and "Refresh" in text(page)
    assert "data-live" not in page.content.decode().split("<body")[1].split(">")[0]


# Before the checks are over


def test_who_knows_something_opens_the_case_from_the_run(fake):
    run, token = new_run()
    sent = send(run, token, provider=FAKE)
    tell(sent, "unknown")
    url = f"/effects/{sent.effect.ref}/case"
    assert "Settle it by hand…" in text(person().get(f"/runs/{run.ref}/"))
    assert "Settle it by hand…" not in text(person("Ada", "Approver").get(f"/runs/{run.ref}/"))
    assert person("Ada", "Approver").post(url, {"why": "x"}).status_code == 403
    dialog = text(person().get(url, **HTMX))
    assert "It sends nothing, and the checks go on." in dialog and "PO-1042" in dialog
    response = person().post(url, {"why": "They rang us"}, **HTMX)
    (case,) = open_cases()
    assert response.status_code == 204 and response.headers["HX-Redirect"] == f"/cases/{case.ref}/"
    assert "They rang us" in text(person().get(f"/cases/{case.ref}/"))
    page = text(person().get(f"/runs/{run.ref}/"))
    assert f"Case {case.ref}" in page and "Settle it by hand…" not in page
    assert person().post(url, {"why": ""}).headers["Location"] == f"/cases/{case.ref}/", "the one that is open already"


def test_there_is_no_case_of_what_is_known(fake):
    run, token = new_run()
    sent = send(run, token, provider=FAKE)
    tell(sent, "landed")
    assert "Settle it by hand…" not in text(person().get(f"/runs/{run.ref}/"))
    response = person().post(f"/effects/{sent.effect.ref}/case", {"why": "x"})
    assert response.status_code == 409 and "there is nothing in doubt for a person to settle" in text(response)
