"""Files that people keep as evidence: of few kinds, of limited size, under our own names, with their hash. Never served but as a download.

What a file shows is judged by people. Its name and its bytes come from outside: neither becomes a path, and no browser is told to run it.
"""

from __future__ import annotations

import hashlib
import uuid
from collections.abc import Iterable
from typing import IO, Any

from django.conf import settings
from django.core.files.base import ContentFile
from django.core.files.storage import Storage, storages
from django.db import transaction

from reconciliation import cases
from reconciliation.models import Case, CaseFile
from runs import actors, timeline, transition
from runs.actors import Actor
from runs.errors import Conflict, Invalid, NotFound
from runs.ids import parse_uuid

FILES_MAX = 20
NAME_MAX = 200

# suffix → (how its bytes begin, as what it is handed out). Text has no beginning: it must read as UTF-8 without control characters.
TYPES: dict[str, tuple[bytes, str]] = {
    "png": (b"\x89PNG\r\n\x1a\n", "image/png"),
    "jpg": (b"\xff\xd8\xff", "image/jpeg"),
    "jpeg": (b"\xff\xd8\xff", "image/jpeg"),
    "pdf": (b"%PDF-", "application/pdf"),
    "txt": (b"", "text/plain; charset=utf-8"),
    "csv": (b"", "text/plain; charset=utf-8"),
    "eml": (b"", "text/plain; charset=utf-8"),
    "json": (b"", "text/plain; charset=utf-8"),
}


def keep(actor: Actor, case_id: uuid.UUID, name: str, content: IO[bytes] | Iterable[bytes]) -> CaseFile:
    """Keep a file with a case that this person may settle; the same bytes again are the same file.

    Raises `NotAllowed`, `NotFound`, `ClaimedByOther`, `AlreadyDecided`, `Invalid` (kind, size, name).
    """
    actor.require(actors.CASE_SETTLE, None, "keep evidence with a case")
    raw = _read(content)
    name = _name(name)
    content_type = _type(name, raw)
    digest = hashlib.sha256(raw).hexdigest()
    known = CaseFile.objects.filter(case=case_id, sha256=digest).first()
    if known is not None:
        return known
    stored_as = storage().save(f"{case_id}/{uuid.uuid4().hex}", ContentFile(raw))
    try:
        with transaction.atomic(durable=True):
            held = cases.lock(case_id)
            cases.check_free(actor, held.case)
            if CaseFile.objects.filter(case=case_id).count() >= FILES_MAX:
                raise Conflict(f"{held.case.ref} keeps {FILES_MAX} files already.")
            kept = CaseFile(case=held.case, name=name, content_type=content_type, size=len(raw), sha256=digest, stored_as=stored_as)
            kept.kept_by, kept.kept_name, kept.at = actor.id, actor.name, transition.clock()
            kept.save()
            told = {"file": str(kept.pk), "name": name, "size": len(raw), "sha256": digest}
            cases.trace(held.case, "file", actor, told)
            if held.run is not None:
                transition.record(held.run, "case.file", actor, subject=held.case.ref, data=told)
            else:
                timeline.append_system("case.file", actor, held.case.ref, told)
            return kept
    except BaseException:
        storage().delete(stored_as)
        raise


def storage() -> Storage:
    """Where the bytes are: outside everything that is served."""
    return storages["evidence"]


def _read(content: IO[bytes] | Iterable[bytes]) -> bytes:
    raw = b""
    for chunk in content:
        raw += chunk
        if len(raw) > settings.EVIDENCE_BYTES_MAX:
            raise Invalid(f"file: larger than {settings.EVIDENCE_BYTES_MAX:,} bytes. Send a smaller one, or a part of it.", field="file")
    if not raw:
        raise Invalid("file: it is empty.", field="file")
    return raw


def _name(name: str) -> str:
    """The last part of the name, printable."""
    name = "".join(c for c in name.replace("\\", "/").rpartition("/")[2] if c.isprintable()).strip()
    if not name.strip("."):
        raise Invalid("file: it needs a name, such as statement.pdf.", field="file")
    return name if len(name) <= NAME_MAX else name[:150] + name[-50:]


def _type(name: str, raw: bytes) -> str:
    """As what it may be handed out: by its suffix, if its bytes are of that kind."""
    suffix = name.rpartition(".")[2].lower() if "." in name else ""
    if suffix not in TYPES or suffix not in settings.EVIDENCE_TYPES:
        allowed = ", ".join(one for one in TYPES if one in settings.EVIDENCE_TYPES)
        raise Invalid(f"file: {suffix or 'a file without a suffix'} is not kept. Kept are {allowed}.", field="file")
    begins, content_type = TYPES[suffix]
    if not raw.startswith(begins) or (not begins and not _is_text(raw)):
        raise Invalid(f"file: what is in it is not {suffix}.", field="file")
    return content_type


def _is_text(raw: bytes) -> bool:
    try:
        text = raw.decode("utf-8-sig")
    except UnicodeDecodeError:
        return False
    return all(c.isprintable() or c in "\t\r\n" or c > "\x9f" for c in text)


def check(case: Case, ids: Iterable[str]) -> tuple[str, ...]:
    """The files that a finding names, as ids. Raises `Invalid` for one that is not kept with this case."""
    wanted = [parse_uuid(one) for one in ids]
    found = {one.pk for one in CaseFile.objects.filter(case=case, pk__in=[one for one in wanted if one is not None])}
    if any(one not in found for one in wanted):
        raise Invalid(f"files: name files that are kept with {case.ref}.", field="files")
    return tuple(str(one) for one in wanted)


def kept_by(actor: Actor, case: Case) -> tuple[str, ...]:
    """The ids of the files that this person has kept with the case."""
    return tuple(str(pk) for pk in CaseFile.objects.filter(case=case, kept_by=actor.id).order_by("at", "id").values_list("pk", flat=True))


def of(case: Case) -> list[dict[str, Any]]:
    """The files of a case as its page shows them, oldest first."""
    return [
        {
            "id": str(one.pk),
            "name": one.name,
            "size": one.size,
            "sha256": one.sha256,
            "by": one.kept_name,
            "at": one.at,
            "url": f"/cases/{case.ref}/files/{one.pk}",
        }
        for one in CaseFile.objects.filter(case=case).order_by("at", "id")
    ]


def read(case: Case, text: str) -> tuple[CaseFile, bytes]:
    """A file of a case and its bytes, which are still those that were kept. Raises `NotFound`, and `Conflict` when they are not."""
    pk = parse_uuid(text)
    kept = CaseFile.objects.filter(case=case, pk=pk).first() if pk else None
    if kept is None:
        raise NotFound(f"{case.ref} keeps no such file.")
    try:
        with storage().open(kept.stored_as) as stored:
            raw = stored.read()
    except FileNotFoundError:
        raise NotFound(f"The bytes of {kept.name} are not in the evidence storage. Restore it from a backup.") from None
    if hashlib.sha256(raw).hexdigest() != kept.sha256:
        raise Conflict(f"{kept.name} is not what was kept: its bytes have changed since. Restore it from a backup.")
    return kept, raw
