"""Keeps the heads of the chains outside the database: whoever owns the database could rewrite a chain, or cut its end, with all its seals.

Each anchor is one line of JSON that names the line before it by its SHA-256 and lists the chains that grew since. Lines are made and
stored here first, then appended to a file (fsync) and posted to an address, as the settings say; both may lag and catch up.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
from pathlib import Path
from typing import IO

import httpx
from django.conf import settings
from django.db import connection, transaction
from django.db.models import Max

from runs.models import Anchor, Seal
from runs.shapes import iso
from runs.transition import clock

SEALS_MAX = 2000  # of one line
LAST_LINE_MAX = 1024 * 1024  # bytes
POST_TIMEOUT_S = 10.0
FIRST = "0" * 64


class AnchorsDisagree(Exception):
    """The file holds another line than the database under the same number: the history was rewritten, or the file belongs elsewhere."""


def keep() -> int:
    """Make the anchors that are due and deliver what has not been delivered. Returns how many lines were made."""
    if not (settings.ANCHOR_FILE or settings.ANCHOR_URL):
        return 0
    made = 0
    while _make():
        made += 1
    if settings.ANCHOR_FILE:
        write_file(Path(settings.ANCHOR_FILE))
    if settings.ANCHOR_URL:
        post(settings.ANCHOR_URL)
    return made


def _make() -> bool:
    """One more line, if a chain has grown. Seals get their ids under the sealing's lock, so lower ones are all there."""
    with transaction.atomic(durable=True), connection.cursor() as cursor:
        cursor.execute("SELECT id FROM runs_sealplace WHERE id = 1 FOR UPDATE")
        before = Anchor.objects.order_by("-number").first()
        seals = list(Seal.objects.filter(id__gt=before.through if before else 0).order_by("id").defer("links", "events")[:SEALS_MAX])
        if not seals:
            return False
        heads = {str(seal.run_id or "system"): (seal.last, seal.head) for seal in seals}
        number, now = (before.number if before else 0) + 1, clock()
        previous = hashlib.sha256(before.line.encode()).hexdigest() if before else FIRST
        told = {"number": number, "at": iso(now), "previous": previous, "heads": [[name, *end] for name, end in sorted(heads.items())]}
        line = json.dumps(told, separators=(",", ":"))
        Anchor.objects.create(number=number, line=line, through=seals[-1].pk, made_at=now)
    return True


def write_file(path: Path) -> int:
    """Append the lines that the file lacks, fsynced; returns how many. Raises `AnchorsDisagree`, and OSError when it cannot be written."""
    path.parent.mkdir(parents=True, exist_ok=True)
    fresh = not path.exists()
    with path.open("ab+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        last, torn = _end_of(file)
        number = int(json.loads(last)["number"]) if last else 0
        ours = list(Anchor.objects.filter(number__gte=number).order_by("number").values_list("line", flat=True))
        if last and (not ours or ours.pop(0) != last) or not "".join(ours[:1]).startswith(torn):
            raise AnchorsDisagree(f"The end of {path} is not what this database holds. Run manage.py verify_chain, and keep the file.")
        file.write("".join(f"{line}\n" for line in ours)[len(torn) :].encode())
        file.flush()
        os.fsync(file.fileno())
    if fresh:
        _sync_folder(path.parent)
    return len(ours)


def _end_of(file: IO[bytes]) -> tuple[str, str]:
    """The last whole line, and what a writer that died left of the next one."""
    size = file.seek(0, os.SEEK_END)
    file.seek(max(0, size - LAST_LINE_MAX))
    *whole, torn = ("\n" + file.read().decode("ascii", "replace")).split("\n")
    return whole[-1], torn


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def post(url: str) -> int:
    """POST each line that the receiver has not confirmed with a 2xx, in order; returns how many. Stops at the first that fails."""
    sent = 0
    with httpx.Client(timeout=POST_TIMEOUT_S, follow_redirects=False) as client:
        for anchor in Anchor.objects.filter(posted_at__isnull=True).order_by("number")[:SEALS_MAX]:
            answer = client.post(url, content=anchor.line.encode(), headers={"Content-Type": "application/json"})
            answer.raise_for_status()
            Anchor.objects.filter(pk=anchor.pk).update(posted_at=clock())
            sent += 1
    return sent


def newest() -> int:
    """The number of the last anchor, 0 before any."""
    return Anchor.objects.aggregate(newest=Max("number"))["newest"] or 0
