"""Looking after people: what each verb does, who may do it to whom, and what stays when somebody has gone."""

import re

import pytest
from django.contrib.auth.models import Group, User
from django.core.management import call_command
from django.core.management.base import CommandError
from django.test import Client

from console import people
from console.auth import person_actor
from runs import actors
from runs.models import Event
from tests.console.browsing import person, text
from tests.makers import cancel, fresh, new_run, refused

pytestmark = pytest.mark.usefixtures("database")

SHELL = actors.system("test")
PASSWORD = "correct horse battery"


def make(username: str = "ada", *groups: str) -> User:
    return people.create(SHELL, username, username.title(), "Lovelace", groups)


def said_of(user: User) -> list[str]:
    """The kinds of the events about a person, oldest first."""
    return list(Event.objects.filter(run=None, subject=str(user.pk)).order_by("id").values_list("kind", flat=True))


def ash() -> Client:
    return person("Ash", "Admin")


def enter(link: str, password: str = PASSWORD, client: Client | None = None) -> tuple[Client, int]:
    """Follow a link for choosing a password, and choose it."""
    client = client or Client()
    landed = client.get(link, follow=True)
    if b"Choose your password" not in landed.content:
        return client, 0
    return client, client.post(landed.request["PATH_INFO"], {"password1": password, "password2": password}).status_code


# Through the pages


def test_an_administrator_adds_a_person_who_chooses_a_password_once():
    form = {"username": "ada", "first_name": "Ada", "last_name": "Lovelace", "groups": ["Approver"]}
    answer = ash().post("/settings/people/new", form)
    assert "Give this link to Ada Lovelace, and to nobody else." in text(answer)
    link = re.search(r'id="password-link">http://testserver(/[^<]+)<', answer.content.decode())[1]
    user = User.objects.get(username="ada")
    assert {group.name for group in user.groups.all()} == {"Approver"} and not user.has_usable_password()
    assert enter(link, "short")[1] == 200, "the rules for passwords hold"
    client, status = enter(link)
    assert status == 302
    assert client.post("/accounts/login/", {"login": "ada", "password": PASSWORD}).status_code == 302
    assert "Approvals" in text(client.get("/approvals/"))
    assert enter(link)[1] == 0, "once"
    assert "This link does not work any more" in text(Client().get(link, follow=True))
    assert said_of(user) == ["people.created", "people.password_link_made", "people.password_changed", "people.signed_in"]
    made = Event.objects.get(kind="people.created")
    assert (made.actor_name, made.data) == ("Ash Admin", {"username": "ada", "groups": ["Approver"]})
    assert link.rpartition("-")[2].strip("/") not in str(list(Event.objects.values_list("data", flat=True))), "the link is kept nowhere"


@pytest.mark.parametrize(
    ("form", "field", "says"),
    [
        ({"username": "a b"}, "username", "Use 1 to 150 letters"),
        ({"username": ""}, "username", "Use 1 to 150 letters"),
        ({"username": "ASH"}, "username", "There is a person with the user name ASH already."),
        ({"first_name": "", "last_name": " "}, "first_name", "Give a name: histories show it."),
        ({"first_name": "A\nB"}, "first_name", "on one line"),
        ({"groups": ["Owner"]}, "groups", "There is no group 'Owner'. Groups are Support, Approver, Auditor, Admin."),
    ],
)
def test_what_is_wrong_with_a_new_person_is_said_and_what_was_typed_is_kept(form, field, says):
    answer = ash().post("/settings/people/new", {"username": "ada", "first_name": "Ada", "last_name": "L", "groups": ["Support"], **form})
    assert answer.status_code == 400 and says in text(answer)
    assert User.objects.count() == 1 and 'value="L"' in answer.content.decode() or field == "first_name"


def test_groups_change_what_somebody_may_do_from_the_next_request_on():
    user, client = make("ada", "Support"), person("Ada", "Support")
    run, _ = new_run()
    assert client.get(f"/runs/{run.ref}/cancel").status_code == 200
    assert ash().post(f"/settings/people/{user.pk}/groups", {"groups": ["Auditor"]}).status_code == 302
    assert client.get(f"/runs/{run.ref}/cancel").status_code == 403
    event = Event.objects.get(kind="people.groups_changed")
    assert event.data == {"username": "ada", "groups": ["Auditor"], "before": ["Support"]}


def test_keeping_somebody_out_ends_their_sessions_for_good_and_keeps_their_name():
    user, client = make("ada", "Support"), person("Ada", "Support")
    run, _ = new_run()
    client.post(f"/runs/{run.ref}/cancel", {"reason": "stop"})
    admin = ash()
    admin.post(f"/settings/people/{user.pk}/deactivate")
    assert client.get("/runs/").headers["Location"].startswith("/accounts/login/")
    assert "Gets in No: deactivated. The name stays in every history." in text(admin.get(f"/settings/people/{user.pk}/"))
    assert "Ada Lovelace asked at" in text(admin.get(f"/runs/{run.ref}/"))
    admin.post(f"/settings/people/{user.pk}/activate")
    assert client.get("/runs/").headers["Location"].startswith("/accounts/login/"), "an old session does not come back to life"
    assert said_of(user)[-2:] == ["people.deactivated", "people.activated"]


def test_a_deleted_persons_name_stays_in_every_history():
    user, client = make("ada", "Support"), person("Ada", "Support")
    run, _ = new_run()
    client.post(f"/runs/{run.ref}/cancel", {"reason": "stop"})
    user.delete()
    said = text(person().get(f"/runs/{run.ref}/"))
    assert "Ada Lovelace asked at" in said and fresh(run).cancel_position is not None


def test_signing_somebody_out_everywhere():
    user, here, there = make("ada", "Support"), person("Ada", "Support"), person("Ada", "Support")
    other = person("Sam", "Support")
    answer = ash().post(f"/settings/people/{user.pk}/sign-out", follow=True)
    assert "They are signed out everywhere." in text(answer)
    assert here.get("/runs/").status_code == there.get("/runs/").status_code == 302 and other.get("/runs/").status_code == 200
    assert Event.objects.get(kind="people.signed_out_everywhere").data["sessions"] == 2


# Rules


def test_nobody_changes_their_own_account_or_gives_themselves_a_group():
    client = ash()
    me = User.objects.get(username="ash")
    answer = client.post(f"/settings/people/{me.pk}/groups", {"groups": ["Admin", "Approver"]}, follow=True)
    assert "This is your own account, so another administrator must do it." in text(answer)
    for verb in ("deactivate", "password-link"):
        client.post(f"/settings/people/{me.pk}/{verb}")
    me.refresh_from_db()
    assert me.is_active and [group.name for group in me.groups.all()] == ["Admin"] and not Event.objects.filter(run=None).exists()


def test_the_last_administrator_stays():
    ash, bea = make("ash", "Admin"), make("bea", "Admin")
    people.set_active(person_actor(bea), ash, False)
    with refused("last_admin"):
        people.set_groups(SHELL, bea, ["Support"])
    with refused("last_admin"):
        people.set_active(SHELL, bea, False)
    bea.refresh_from_db()
    assert bea.is_active and bea.groups.get().name == "Admin"


@pytest.mark.parametrize("group", ["Support", "Approver", "Auditor", ""])
def test_only_administrators_look_after_people(group):
    user = make("ada")
    actor = person_actor(User.objects.get(pk=make("olga", *filter(None, [group])).pk))
    for verb in (
        lambda: people.everyone(actor),
        lambda: people.create(actor, "eve", "Eve", "", ["Admin"]),
        lambda: people.set_groups(actor, user, ["Admin"]),
        lambda: people.set_active(actor, user, False),
        lambda: people.sign_out_everywhere(actor, user),
        lambda: people.password_link(actor, user),
    ):
        with refused("not_allowed"):
            verb()


def test_looking_after_people_needs_a_recent_proof():
    user = make("ada")
    late = person("Ash", "Admin", proved_s_ago=3600)
    for path, form in (("groups", {"groups": ["Admin"]}), ("deactivate", {}), ("password-link", {})):
        answer = late.post(f"/settings/people/{user.pk}/{path}", form)
        assert answer.url == f"/accounts/reauthenticate/?next=%2Fsettings%2Fpeople%2F{user.pk}%2F"
    assert late.post("/settings/people/new", {"username": "eve", "first_name": "Eve"}).url.startswith("/accounts/reauthenticate/")
    assert said_of(user) == ["people.created"]


def test_who_is_kept_out_is_let_in_by_no_link():
    user = make("ada")
    link = people.password_link(SHELL, user)
    people.set_active(SHELL, user, False)
    with refused("invalid"):
        people.password_link(SHELL, user)
    client, _ = enter(link)
    client.post("/accounts/login/", {"login": "ada", "password": PASSWORD})
    assert client.get("/runs/").status_code == 302


def test_the_command_line_makes_the_first_administrator(capsys):
    call_command("person", "ash", name="Ash Admin", group=["Admin"])
    link = re.search(r"(/accounts/password/reset/key/\S+)", capsys.readouterr().out)[1]
    assert enter(link)[1] == 302 and User.objects.get().groups.get() == Group.objects.get(name="Admin")
    with pytest.raises(CommandError, match="already"):
        call_command("person", "ash", name="Ash", group=["Admin"])


def test_a_superuser_or_staff_has_no_right_without_a_group():
    User.objects.create_superuser("root", password=PASSWORD)
    client = Client()
    client.post("/accounts/login/", {"login": "root", "password": PASSWORD})
    run, _ = new_run()
    assert client.get(f"/runs/{run.ref}/").status_code == client.get("/settings/people/").status_code == 403
    with refused("not_allowed"):
        cancel(run, actor=person_actor(User.objects.get(username="root")))
