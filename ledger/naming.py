"""What people call a provider and an action."""

from __future__ import annotations

from django.conf import settings

_VERBS = ("create_", "place_", "make_", "send_", "post_", "issue_")
_UNDOING = {"cancel_": "cancellation", "refund_": "refund", "void_": "voiding", "reverse_": "reversal"}


def provider_name(name: str) -> str:
    """What people call the provider: the `name` of its settings, else the name that plans use."""
    return str(settings.PROVIDERS.get(name, {}).get("name") or name.replace("_", " ").title())


def action_words(action: str) -> str:
    """An action as a thing that people talk of: `create_order` is an order, `cancel_order` an order cancellation."""
    for verb, noun in _UNDOING.items():
        if action.startswith(verb):
            return f"{action.removeprefix(verb).replace('_', ' ')} {noun}"
    for verb in _VERBS:
        action = action.removeprefix(verb)
    return action.replace("_", " ")
