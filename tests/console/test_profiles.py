"""What a person likes is kept with them, in every browser that they sign in with."""

import pytest
from django.contrib.auth.models import User
from django.test import Client

from console import profiles
from console.models import Profile
from tests.console.browsing import person, text

pytestmark = pytest.mark.usefixtures("database")

PASSWORD = "correct horse battery"


def liked(client: Client) -> tuple[str, str, str]:
    return tuple(client.cookies[name].value for name in ("zone", "keys", "theme"))  # type: ignore[return-value]


def test_it_is_kept_and_follows_the_person_into_another_browser():
    client = person()
    answer = client.post("/profile/", {"time_zone": "Europe/Berlin", "theme": "dark"}, follow=True)
    assert "Kept, for every browser" in text(answer) and 'data-theme="dark"' in answer.content.decode()
    assert liked(client) == ("Europe/Berlin", "off", "dark")
    user = User.objects.get()
    user.set_password(PASSWORD)
    user.save()
    other = Client()
    other.post("/accounts/login/", {"login": "sam", "password": PASSWORD})
    assert liked(other) == ("Europe/Berlin", "off", "dark")
    page = other.get("/profile/").content.decode()
    assert '<option value="Europe/Berlin" selected>' in page and '<option value="dark" selected>' in page


def test_the_menu_keeps_single_choices_and_leaves_the_others():
    client = person()
    client.post("/profile/", {"time_zone": "Asia/Tokyo", "theme": "light", "shortcuts": "on"})
    for form in ({"theme": "dark"}, {"shortcuts": "off"}):
        assert client.post("/profile/", form, headers={"X-Quiet": "1"}).status_code == 204
    kept = Profile.objects.get()
    assert (kept.time_zone, kept.shortcuts, kept.theme) == ("Asia/Tokyo", False, "dark")


@pytest.mark.parametrize(
    ("form", "says"), [({"time_zone": "Mars/Olympus"}, "There is no such time zone."), ({"theme": "pink"}, "theme must be")]
)
def test_what_there_is_not_is_refused(form, says):
    answer = person().post("/profile/", {"time_zone": "", "theme": "", **form})
    assert answer.status_code == 400 and says in text(answer) and not Profile.objects.exists()


def test_the_zones_are_those_of_places():
    zones = profiles.zones()
    assert "Europe/Berlin" in zones and "America/New_York" in zones and not [name for name in zones if name.startswith(("Etc/", "posix"))]


def test_who_belongs_to_no_group_is_told_so_on_their_profile():
    assert "nobody yet: an administrator must put you in a group" in text(person("Nora", "").get("/profile/"))
