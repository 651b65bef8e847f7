"""The outgoing webhook as the OpenAPI description shows it. Written out, because what webhooks name is not added to its components."""

from __future__ import annotations

from typing import Any

from drf_spectacular.utils import OpenApiWebhook

from console.notifications import states


def _text(told: str, **more: Any) -> dict[str, Any]:
    return {"type": "string", "description": told, **more}


def _header(name: str, told: str) -> dict[str, Any]:
    return {"name": name, "in": "header", "required": True, "description": told, "schema": {"type": "string"}}


def _object(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "required": list(properties), "properties": properties}


_DATA = _object(
    says=_text("A fixed sentence of ours."),
    reference=_text("What it is about: a case Q-…, a request C-…, an action E-…, a run R-…, or a provider's name."),
    version={"type": "integer", "description": "The version of what `reference` names when the message was made."},
    run={"type": ["string", "null"], "description": "The run's reference."},
    about={"type": ["string", "null"], "description": "The kind of case, the outcome, or confirmation | undo."},
    url=_text("Where a person who is signed in sees the rest."),
)
_BODY = _object(type=_text("What happened.", enum=sorted(states.WORDS)), timestamp=_text("When.", format="date-time"), data=_DATA)

message = OpenApiWebhook(
    "message",
    {
        "post": {
            "summary": "Something that cannot wait until somebody looks",
            "description": "Sent to the endpoints that administrators add, signed as Standard Webhooks says (docs/notifications.md).",
            "parameters": [
                _header("webhook-id", "The same for every try: deduplicate by it."),
                _header("webhook-timestamp", "When this try was made, in seconds since 1970."),
                _header("webhook-signature", "`v1,<base64>` for each live secret, separated by spaces."),
            ],
            "requestBody": {"required": True, "content": {"application/json": {"schema": _BODY}}},
            "responses": {
                "2XX": {"description": "Received. Anything else is tried again for about three days."},
                "410": {"description": "Wanted no more: the endpoint is disabled."},
            },
        }
    },
)
