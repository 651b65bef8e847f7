"""Bodies of the API: JSON in UTF-8, at most 1 MiB, and nothing that would be ambiguous."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.conf import settings
from django.http import HttpRequest
from rest_framework.parsers import BaseParser

from console.problems import BodyTooLarge
from runs.parsing import read_json


def read_body(request: HttpRequest) -> bytes:
    """The raw body. Raises `BodyTooLarge` above the limit, without reading the rest."""
    limit = settings.DATA_UPLOAD_MAX_MEMORY_SIZE
    raw = request.read(limit + 1)
    if len(raw) > limit:
        raise BodyTooLarge
    return raw


class StrictJSONParser(BaseParser):
    """DRF's door to `read_json`."""

    media_type = "application/json"

    def parse(self, stream: Any, media_type: str | None = None, parser_context: Mapping[str, Any] | None = None) -> Any:
        given = read_json(read_body(stream))
        return {} if given is None else given
