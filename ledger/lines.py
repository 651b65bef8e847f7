"""Effects and attempts as the JSON lines of receipts, previews, accounts and takeovers: one wording of each fact, everywhere."""

from __future__ import annotations

from typing import Any

from ledger.models import Attempt, Effect
from runs.book import Line


def effect_line(effect: Effect) -> Line:
    """What an effect is and what we know of it."""
    return {
        "operation_id": str(effect.operation_id),
        "ref": effect.ref,
        "step": effect.step_key,
        "ordinal": effect.ordinal,
        "provider": effect.provider,
        "action": effect.action,
        "business_ref": effect.business_ref,
        "occurrence": effect.occurrence,
        "amount": effect.amount,
        "currency": effect.currency or None,
        "role": effect.role,
        "state": effect.state,
        "unknowable": effect.unknowable,
        "landed_amount": effect.landed_amount,
        "external_id": effect.external_id or None,
        "how_we_know": effect.how_we_know or None,
        "known_by": effect.known_by or None,
        "confirmed_relative_to_cancel": relative_to_cancel(effect),
    }


def attempt_line(effect: Effect, attempt: Attempt) -> Line:
    """An attempt that may still act: its effect, and when its bytes may have left and an answer is due."""
    return {
        **effect_line(effect),
        "attempt": attempt.number,
        "holder": attempt.holder,
        "sent_at": attempt.sent_at.isoformat(),
        "send_by": attempt.send_by.isoformat(),
        "answer_by": attempt.answer_by.isoformat(),
    }


def relative_to_cancel(effect: Effect) -> str | None:
    """Whether the present outcome was recorded before or after the run's cancel, by our own sequence numbers; None without either."""
    cancelled_at: Any = effect.run.cancel_position
    if cancelled_at is None or effect.known_position is None:
        return None
    return "before" if effect.known_position < cancelled_at else "after"
