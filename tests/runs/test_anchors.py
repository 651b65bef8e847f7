"""Anchors: the heads of the chains in a file outside the database, line after line, and at an address if one is set."""

from __future__ import annotations

import hashlib
import json
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import httpx
import pytest

from runs import anchors, sealing
from runs.models import Anchor, Seal
from tests.makers import new_run, step

pytestmark = pytest.mark.usefixtures("database")


@pytest.fixture
def path(tmp_path, settings):
    settings.ANCHOR_FILE = str(tmp_path / "kept" / "anchors.jsonl")
    return tmp_path / "kept" / "anchors.jsonl"


def grow(run_and_token=None):
    run, token = run_and_token or new_run()
    step(run, token, f"step-{Seal.objects.count()}")
    sealing.seal_due()
    return run, token


def lines(path):
    return path.read_text().splitlines()


def test_each_line_names_what_grew_and_the_line_before_it(path):
    one = grow()
    assert anchors.keep() == 1
    two = grow()
    grow(one)
    assert anchors.keep() == 1
    assert anchors.keep() == 0
    first, second = map(json.loads, lines(path))
    assert [first["number"], second["number"]] == [1, 2]
    assert second["previous"] == hashlib.sha256(lines(path)[0].encode()).hexdigest()
    assert {stream for stream, _, _ in second["heads"]} == {str(one[0].pk), str(two[0].pk)}
    ends = {str(seal.run_id): [seal.last, seal.head] for seal in Seal.objects.order_by("first")}
    assert {stream: end for stream, *end in second["heads"]} == ends


def test_nothing_is_kept_where_no_place_is_set(settings):
    settings.ANCHOR_FILE = settings.ANCHOR_URL = ""
    grow()
    assert anchors.keep() == 0
    assert not Anchor.objects.exists()


def test_a_line_that_a_dying_writer_left_half_is_completed(path):
    grow()
    anchors.keep()
    whole = path.read_bytes()
    grow()
    anchors.keep()
    full = path.read_bytes()
    for length in (len(whole) + 1, len(whole) + 40, len(full) - 1):
        path.write_bytes(full[:length])
        anchors.write_file(path)
        assert path.read_bytes() == full


def test_a_lost_file_is_written_again(path):
    grow()
    anchors.keep()
    before = path.read_bytes()
    path.unlink()
    anchors.keep()
    assert path.read_bytes() == before


def test_a_file_that_says_otherwise_is_left_alone(path):
    grow()
    anchors.keep()
    path.write_text(lines(path)[0].replace('"number":1', '"number": 1') + "\n")
    kept = path.read_bytes()
    grow()
    with pytest.raises(anchors.AnchorsDisagree):
        anchors.keep()
    assert path.read_bytes() == kept


def test_a_file_that_is_ahead_of_the_database_is_an_alarm(path, owner_connection):
    grow()
    anchors.keep()
    owner_connection.execute("DELETE FROM runs_anchor")
    with pytest.raises(anchors.AnchorsDisagree):
        anchors.write_file(path)


def test_lines_are_posted_in_order_until_each_is_confirmed(settings):
    got, broken = [], threading.Event()

    class Receiver(BaseHTTPRequestHandler):
        def do_POST(self):
            body = self.rfile.read(int(self.headers["Content-Length"])).decode()
            if not broken.is_set():
                got.append(json.loads(body)["number"])
            self.send_response(500 if broken.is_set() else 204)
            self.end_headers()

        def log_message(self, *args):
            pass

    with HTTPServer(("127.0.0.1", 0), Receiver) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        settings.ANCHOR_FILE, settings.ANCHOR_URL = "", f"http://127.0.0.1:{server.server_port}/anchors"
        grow()
        anchors.keep()
        broken.set()
        grow()
        with pytest.raises(httpx.HTTPStatusError):
            anchors.keep()
        grow()
        broken.clear()
        anchors.keep()
        server.shutdown()
    assert got == [1, 2, 3]
    assert not Anchor.objects.filter(posted_at=None).exists()
