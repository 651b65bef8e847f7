"""Where the control plane, the supplier and the outbox are: from the environment, else from the running demo."""

import json
import os
from pathlib import Path
from typing import Any

HOME = Path(os.environ.get("COUNTERMAND_HOME") or Path(__file__).resolve().parents[2] / ".countermand")


def supplier_url() -> str:
    """SUPPLIER_URL, or the demo's supplier."""
    return _setting("SUPPLIER_URL", "supplier_url")


def control_plane() -> tuple[str, str]:
    """(address, token): COUNTERMAND_URL and COUNTERMAND_TOKEN, or the demo's."""
    return _setting("COUNTERMAND_URL", "url"), _setting("COUNTERMAND_TOKEN", "agent_token")


def outbox() -> Path:
    """The folder that notifications are written to: PURCHASE_ORDERS_OUTBOX, or `outbox` in COUNTERMAND_HOME."""
    return Path(os.environ.get("PURCHASE_ORDERS_OUTBOX") or HOME / "outbox")


def _setting(name: str, in_demo: str) -> str:
    if value := os.environ.get(name):
        return value
    try:
        demo: dict[str, Any] = json.loads((HOME / "demo.json").read_text())
        return str(demo[in_demo])
    except (OSError, ValueError, KeyError):
        raise SystemExit(f"{name} is not set and no demo is running. Set it, or start one with: make demo") from None
