"""Reads settings from the environment. A missing or malformed value stops the process with a sentence that names it;
nothing here ever guesses a value for a setting that matters."""

import json
import os
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from django.core.exceptions import ImproperlyConfigured
from psycopg import ProgrammingError
from psycopg.conninfo import conninfo_to_dict

TRUE = frozenset({"1", "true", "yes", "on"})
FALSE = frozenset({"0", "false", "no", "off", ""})


def text(name: str, default: str | None = None) -> str:
    """The value of `name`. An empty value counts as missing. Raises ImproperlyConfigured without value and default."""
    value = os.environ.get(name) or default
    if value is None:
        raise ImproperlyConfigured(f"{name} is not set. docs/operations.md says what it is for.")
    return value


def flag(name: str, default: bool = False) -> bool:
    """True for 1/true/yes/on, False for 0/false/no/off, in any case."""
    value = os.environ.get(name)
    if value is None:
        return default
    lowered = value.strip().lower()
    if lowered in TRUE or lowered in FALSE:
        return lowered in TRUE
    raise ImproperlyConfigured(f"{name}={value!r} is neither true nor false: write 1 or 0.")


def number(name: str, default: int, minimum: int = 0) -> int:
    """A whole number of at least `minimum`."""
    value = os.environ.get(name) or str(default)
    try:
        parsed = int(value)
    except ValueError:
        raise ImproperlyConfigured(f"{name}={value!r} is not a whole number.") from None
    if parsed < minimum:
        raise ImproperlyConfigured(f"{name}={value!r} is less than {minimum}.")
    return parsed


def words(name: str, default: tuple[str, ...] = ()) -> list[str]:
    """A comma-separated list; blanks around the items are dropped."""
    value = os.environ.get(name)
    return list(default) if value is None else [item.strip() for item in value.split(",") if item.strip()]


def origins(*urls: str) -> list[str]:
    """The origins (`https://login.example.org`) of those URLs that are any."""
    parts = [urlsplit(url) for url in urls]
    return [f"{part.scheme}://{part.netloc}" for part in parts if part.scheme and part.netloc]


def json_object(name: str) -> dict[str, Any]:
    """A JSON object, written in the variable itself or, as `@/path/to/file.json`, in a file. Missing: empty."""
    value = os.environ.get(name) or "{}"
    try:
        parsed = json.loads(Path(value[1:]).read_text("utf-8") if value.startswith("@") else value)
    except OSError as error:
        raise ImproperlyConfigured(f"{name} names a file that cannot be read: {error}.") from None
    except ValueError as error:
        raise ImproperlyConfigured(f"{name} is not JSON: {error}.") from None
    if not isinstance(parsed, dict):
        raise ImproperlyConfigured(f"{name} must be a JSON object, not {type(parsed).__name__}.")
    return parsed


def database(name: str, default: str | None = None) -> dict[str, Any]:
    """A Django database from a PostgreSQL URL (`postgresql://role:password@host:port/name?sslmode=require`; a socket
    folder goes in `?host=/folder`). Parsed by libpq itself, so whatever libpq accepts is accepted."""
    url = text(name, default)
    if not url.startswith(("postgresql://", "postgres://")):
        raise ImproperlyConfigured(f"{name} must start with postgresql://: Countermand runs on PostgreSQL 15 or newer.")
    try:
        parts: dict[str, Any] = conninfo_to_dict(url)
    except ProgrammingError as error:
        raise ImproperlyConfigured(f"{name} is not a PostgreSQL URL: {str(error).strip()}.") from None
    if not parts.get("dbname"):
        raise ImproperlyConfigured(f"{name} names no database.")
    return {
        "ENGINE": "django.db.backends.postgresql",
        "NAME": parts.pop("dbname"),
        "USER": parts.pop("user", ""),
        "PASSWORD": parts.pop("password", ""),
        "HOST": parts.pop("host", ""),
        "PORT": str(parts.pop("port", "")),
        "OPTIONS": parts,
    }
