"""How much a form may bring: a body that says that it is larger is refused before it is read."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.exceptions import RequestDataTooBig
from django.core.files.uploadhandler import FileUploadHandler

BESIDE_THE_FILE = 256 * 1024  # bytes: the other fields of a form


class Limit(FileUploadHandler):
    """First in the line of Django's upload handlers; keeps nothing itself."""

    def handle_raw_input(
        self, input_data: Any, META: dict[str, Any], content_length: int, boundary: bytes, encoding: str | None = None
    ) -> None:
        if content_length > settings.EVIDENCE_BYTES_MAX + BESIDE_THE_FILE:
            raise RequestDataTooBig(f"A file may have {settings.EVIDENCE_BYTES_MAX:,} bytes at most. Send a smaller one, or a part of it.")

    def receive_data_chunk(self, raw_data: bytes, start: int) -> bytes:
        return raw_data

    def file_complete(self, file_size: int) -> None:
        return None
