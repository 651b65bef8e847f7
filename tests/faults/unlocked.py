"""The web process without the run-row lock: its fence reads the run, and counts when it writes."""

from __future__ import annotations

import pytest

from console.asgi import application as application
from tests.twin import broken

broken.no_row_lock(pytest.MonkeyPatch())
