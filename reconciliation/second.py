"""When a second person must confirm a finding: it can't be known, or it decides over more money than one person may."""

from __future__ import annotations

from decimal import Decimal, InvalidOperation

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured

from ledger.models import Effect
from ledger.money import UnknownCurrency, exponent, money_text
from reconciliation import evidence, states
from reconciliation.evidence import Finding

ANY_CURRENCY = "*"


def why_needed(effect: Effect | None, finding: Finding) -> str:
    """The sentence that says why somebody else must confirm; '' when nobody need."""
    if finding.verdict == states.CANNOT_BE_KNOWN:
        return "A second person must confirm that it cannot be known."
    if effect is None or finding.verdict not in evidence.DECIDES_MONEY:
        return ""
    asked, found = (effect.amount, effect.currency), (finding.amount, finding.currency or effect.currency)
    for amount, currency in (asked, found):
        limit = limit_of(currency) if currency else None
        if amount is not None and limit is not None and amount > limit:
            return f"Over {money_text(limit, currency)} a second person must confirm it."
    return ""


def limit_of(currency: str) -> int | None:
    """What one person may settle alone, in minor units of `currency`; None: anything. From SECOND_PERSON_OVER, in major units."""
    told = settings.SECOND_PERSON_OVER
    limit = told.get(currency, told.get(ANY_CURRENCY))
    if limit is None:
        return None
    try:
        major = Decimal(str(limit))
        minor = major * 10 ** exponent(currency)
        if not major.is_finite() or major < 0:
            raise InvalidOperation
    except UnknownCurrency:
        return None
    except InvalidOperation:
        raise ImproperlyConfigured(
            f'COUNTERMAND_SECOND_PERSON_OVER: {currency} is {limit!r}. Use major units, such as {{"EUR": "5000.00"}}.'
        ) from None
    return int(minor)
