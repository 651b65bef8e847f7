"""Any JSON API by configuration: ask, do and undo as the settings say, and believe nothing that is not exactly as configured."""

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any
from urllib.parse import quote

from ledger.providers import standard_webhooks
from ledger.providers.base import Answer, Found, Look, News, Seen, Send, Sought
from ledger.providers.http import reading, settings, templates
from ledger.providers.http.reading import MISSING, NotUnderstood, at
from ledger.providers.http.settings import Action, Call, Code, Question
from ledger.providers.money import BadAmount, decimal_text
from ledger.providers.wire import Exchange, NoAnswer, NothingLeft, Wire

_WORDS_MAX = 500


class Http:
    """Settings: see `docs/providers.md`, "A JSON API by configuration"."""

    kind = "http"

    def __init__(self, config: Mapping[str, Any]) -> None:
        self._api = settings.read(config)
        self.capability = self._api.capability
        self._wire = Wire(self._api.url, timeout_s=self._api.timeout_s, guard=self._api.guard, tls=self._api.tls)

    # Asking

    def look(self, sought: Sought) -> Look:
        """Ask as the action's `look` says; anything that is not as configured is no information."""
        action = self._api.actions.get(sought.action)
        if action is None or action.look is None:
            return Look("unreachable", detail=f"It is not configured how to ask about {sought.action}.")
        asked_id = sought.undoes or sought.external_id
        values = {"reference": sought.provider_reference, "operation_id": sought.operation_id, "external_id": asked_id}
        try:
            path = templates.path(action.look.path, values)
            headers = {name: templates.header(value, values) for name, value in action.look.headers.items()}
        except templates.CannotFill as error:
            return Look("unreachable", detail=str(error))
        objects: list[Found] = []
        try:
            for exchange in self._pages(action.look, path, headers):
                if no_information := _no_information(exchange, action.look.absent):
                    return no_information
                objects += _objects(action, action.look, exchange, sought)
        except (NothingLeft, NoAnswer) as error:
            return Look("unreachable", detail=str(error))
        except _Incomplete as error:
            return _look("unreachable", error.seen, detail=str(error))
        except (NotUnderstood, BadAmount) as error:
            return _look("unreachable", exchange.seen, detail=str(error))
        return _look("found" if objects else "empty", exchange.seen, tuple(objects))

    def _pages(self, question: Question, path: str, headers: Mapping[str, str]) -> Iterator[Exchange]:
        """One exchange, or one for each page. Raises _Incomplete when the last one does not say that it is the last."""
        asked = path
        for _ in range(question.pages.most if question.pages else 1):
            exchange = self._wire.exchange("GET", asked, headers=self._headers(headers))
            yield exchange
            following = _following(question, exchange)
            if following is None:
                return
            mark = "&" if "?" in path else "?"
            asked = f"{path}{mark}{quote(question.pages.param, safe='')}={quote(following, safe='')}" if question.pages else path
        raise _Incomplete("the listing goes on", exchange.seen)

    def _headers(self, more: Mapping[str, str]) -> dict[str, str]:
        return {"Accept": "application/json", **self._api.headers, **more}

    # Doing

    def perform(self, send: Send) -> Answer:
        """Do the action as its `perform` says, once."""
        action = self._api.actions.get(send.action)
        if action is None or action.perform is None:
            return Answer("not_sent", detail=f"It is not configured how to perform {send.action}.")
        return self._do(action, action.perform, send)

    def compensate(self, send: Send) -> Answer:
        """Undo `send.external_id` as the action's `compensate` says, once."""
        action = self._api.actions.get(send.action)
        if action is None or action.compensate is None or not send.external_id:
            return Answer("not_sent", detail=f"It is not configured how to undo by {send.action}, or what to undo is not named.")
        return self._do(action, action.compensate, send)

    def _do(self, action: Action, call: Call, send: Send) -> Answer:
        try:
            values = _values(action, send)
            path, body = templates.path(call.path, values), templates.body(call.body, values)
            headers = self._headers({name: templates.header(value, values) for name, value in call.headers.items()})
        except (templates.CannotFill, BadAmount) as error:
            return Answer("not_sent", detail=str(error))
        try:
            exchange = self._wire.exchange(call.method, path, body=body, headers=headers)
        except NothingLeft as error:
            return Answer("not_sent", detail=str(error))
        except NoAnswer as error:
            return Answer("unknown", detail=str(error))
        if _says(exchange, call.refused):
            return _answer("refused", exchange.seen, f"HTTP {exchange.status} {_word(exchange, call.refused)}".strip())
        if exchange.status not in call.landed:
            return _answer("unknown", exchange.seen, f"HTTP {exchange.status}")
        try:
            found = _done(action, call, exchange, send)
        except (NotUnderstood, BadAmount) as error:
            return _answer("unknown", exchange.seen, str(error))
        if found.state == "reversed":
            return _answer("unknown", exchange.seen, "it reads as undone already; a look will tell")
        return Answer(found.state, found, **asdict(exchange.seen))

    # Being told

    def read_webhook(self, headers: Mapping[str, str], raw: bytes, now: datetime) -> News:
        """Verify (Standard Webhooks), then read the kinds that are configured; others carry nothing. SignatureRefused."""
        events = self._api.events
        event_id, body = standard_webhooks.verified(events.signers, headers, raw, now)
        word = at(body, events.kind)
        kind = word[:100] if isinstance(word, str) else ""
        if kind not in events.kinds:
            return News(event_id, kind, None, None, None)
        try:
            found = reading.read(self._api.actions[events.kinds[kind]].shape, at(body, events.item))
        except (NotUnderstood, BadAmount):
            return News(event_id, kind, None, None, None)
        return News(event_id, kind, found.operation_id, found.reference or None, found)


class _Incomplete(Exception):
    """There is more than was seen, or it is not said that there is not."""

    def __init__(self, what: str, seen: Seen) -> None:
        super().__init__(what)
        self.seen = seen


def _following(question: Question, exchange: Exchange) -> str | None:
    """The cursor of the next page, None when this is all. _Incomplete."""
    if question.pages is None:
        if question.complete is not None:
            value = at(exchange.json, question.complete.path)
            if value != question.complete.value or type(value) is not type(question.complete.value):
                raise _Incomplete(f"the listing does not say that it is complete ({question.complete.path})", exchange.seen)
        return None
    cursor = at(exchange.json, question.pages.cursor)
    if cursor is None or cursor == "" or (cursor is MISSING and question.pages.missing_is_last):
        return None
    if isinstance(cursor, int) and not isinstance(cursor, bool):
        return str(cursor)
    if not isinstance(cursor, str):
        raise _Incomplete(f"the listing does not say whether it goes on ({question.pages.cursor})", exchange.seen)
    return cursor


def _no_information(exchange: Exchange, absent: Code | None) -> Look | None:
    """What is neither a complete 200 nor the documented word for 'there is none'."""
    if absent is not None and _says(exchange, absent):
        return _look("empty", exchange.seen)
    if exchange.status in (401, 403):
        return _look("refused_access", exchange.seen, detail=f"HTTP {exchange.status}: our access is refused")
    if exchange.status != 200:
        return _look("unreachable", exchange.seen, detail=f"HTTP {exchange.status}")
    if exchange.json is None:
        return _look("unreachable", exchange.seen, detail="HTTP 200, but the body is not a JSON object")
    return None


def _objects(action: Action, question: Question, exchange: Exchange, sought: Sought) -> list[Found]:
    """What the answer tells of what was sought. Other undos of the same object are passed over in a list. NotUnderstood, BadAmount."""
    objects = [reading.found(action.shape, item, sought) for item in _items(question, exchange, sought)]
    if sought.undoes is None:
        return objects
    ours = [one for one in objects if reading.is_ours(action.shape, one, sought)]
    if question.list is None and not ours:
        raise NotUnderstood(f"the undoing of {sought.undoes} that is there is not the one that was asked about")
    return ours


def _items(question: Question, exchange: Exchange, sought: Sought) -> list[Any]:
    asked = {sought.provider_reference, sought.operation_id, sought.undoes or sought.external_id} - {None}
    if question.about is not None and at(exchange.json, question.about) not in asked:
        raise NotUnderstood(f"the answer does not say that it is about what was asked for ({question.about})")
    if question.list is None:
        return [at(exchange.json, question.item)]
    items = at(exchange.json, question.list)
    if not isinstance(items, list):
        raise NotUnderstood(f"there is no list at {question.list}")
    return items


def _says(exchange: Exchange, code: Code) -> bool:
    """Whether the answer is JSON with a configured status and, where words are configured, one of those at its place."""
    if exchange.status not in code.statuses or exchange.json is None:
        return False
    return code.path is None or (word := _word(exchange, code)) != "" and (not code.words or word in code.words)


def _word(exchange: Exchange, code: Code) -> str:
    word = at(exchange.json, code.path) if code.path is not None else ""
    return str(word)[:_WORDS_MAX] if isinstance(word, str | int) else ""


def _values(action: Action, send: Send) -> dict[str, Any]:
    amount: int | str | None = send.amount
    if send.amount is not None and action.shape.amount_format == "decimal":
        amount = decimal_text(send.amount, send.currency or "")
    return {
        "reference": send.provider_reference,
        "operation_id": send.operation_id,
        "external_id": send.external_id,
        "amount": amount,
        "currency": send.currency,
        "attempt": send.attempt,
        "request": send.request,
    }


def _done(action: Action, call: Call, exchange: Exchange, send: Send) -> Found:
    """The object in the answer to a send, when it is about what was sent. NotUnderstood, BadAmount."""
    sent_at, undoes = datetime.now(UTC), send.external_id if action.compensate else None
    sought = Sought(send.provider_reference, send.operation_id, None, send.action, send.amount, send.currency, sent_at, undoes)
    found = reading.found(action.shape, at(exchange.json, call.item), sought)
    if found.reference != send.provider_reference or found.operation_id not in (None, send.operation_id):
        raise NotUnderstood(f"sent {send.provider_reference} ({send.operation_id}), answered about another")
    return found


def _look(outcome: Any, seen: Seen, objects: tuple[Found, ...] = (), *, detail: str = "") -> Look:
    return Look(outcome, objects, **{**asdict(seen), "detail": detail or seen.detail})


def _answer(verdict: Any, seen: Seen, detail: str) -> Answer:
    return Answer(verdict, **{**asdict(seen), "detail": detail})
