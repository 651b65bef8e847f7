"""Static files as a deployment serves them: compressed, kept for ever by browsers. Pages, which hold secrets, stay as they are."""

from __future__ import annotations

import gzip
import re

import pytest
from django.core.management import call_command

from tests.console.browsing import person

pytestmark = pytest.mark.usefixtures("database")

A_YEAR_S = 365 * 24 * 3600


@pytest.fixture
def collected(settings, tmp_path):
    settings.STATIC_ROOT, settings.WHITENOISE_USE_FINDERS = tmp_path, False
    settings.STATICFILES_FINDERS = ["django.contrib.staticfiles.finders.FileSystemFinder"]
    backend = "whitenoise.storage.CompressedManifestStaticFilesStorage"
    settings.STORAGES = settings.STORAGES | {"staticfiles": {"BACKEND": backend}}
    call_command("collectstatic", verbosity=0, interactive=False)


def asked_for(html: str) -> set[str]:
    """The addresses of the files that a page loads."""
    return {path.partition("#")[0] for path in re.findall(r'(?:src|href)="(/static/[^"]+)"', html)}


def body(response) -> bytes:
    return b"".join(response.streaming_content)


def test_what_a_page_loads_travels_compressed_and_is_kept_for_ever(collected):
    client = person()
    files = asked_for(client.get("/runs/").content.decode())
    weight = 0
    for path in files:
        packed, plain = client.get(path, HTTP_ACCEPT_ENCODING="gzip, deflate, br"), client.get(path)
        assert "immutable" in packed["Cache-Control"], path
        assert int(re.search(r"max-age=(\d+)", packed["Cache-Control"])[1]) >= A_YEAR_S
        assert packed["Content-Encoding"] == "gzip" and "Accept-Encoding" in packed["Vary"], path
        assert not plain.has_header("Content-Encoding")
        sent = body(packed)
        assert gzip.decompress(sent) == body(plain) and int(packed["Content-Length"]) == len(sent)
        weight += len(sent) if path.endswith((".js", ".css")) else 0
    assert 0 < weight <= 35 * 1024 and len(files) + 1 <= 6, "with the page itself"


def test_a_page_with_secrets_is_never_compressed_and_never_kept(collected):
    for path in ("/runs/", "/profile/"):
        page = person().get(path, HTTP_ACCEPT_ENCODING="gzip, deflate, br")
        assert "csrf" in page.content.decode().lower(), path
        assert not page.has_header("Content-Encoding") and page["Cache-Control"] == "no-store"
