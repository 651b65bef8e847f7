"""Amounts between a provider's decimal strings and our integers of minor units, exact in each currency's exponent.

Nothing is rounded: an amount that does not fit its currency is no amount.
"""

import re
from decimal import Decimal

from iso4217 import Currency

_DECIMAL = re.compile(r"(0|[1-9]\d{0,14})(\.\d{1,6})?", re.ASCII)


class BadAmount(ValueError):
    """The text is no exact amount of this currency; the message says why."""


def exponent(currency: object) -> int:
    """Decimals of an ISO 4217 code (JPY 0, EUR 2, KWD 3); BadAmount when there is no such currency."""
    if isinstance(currency, str) and len(currency) == 3 and currency.isupper():
        try:
            digits = Currency(currency).exponent
        except ValueError:
            digits = None
        if digits is not None:
            return int(digits)
    raise BadAmount(f"{currency!r} is no ISO 4217 currency with amounts")


def minor_units(text: object, currency: object) -> int:
    """The integer of minor units in a decimal string; BadAmount for a number, a sign, or too many decimals."""
    digits = exponent(currency)
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise BadAmount(f"{text!r} is no decimal string")
    scaled = Decimal(text).scaleb(digits)
    if scaled != scaled.to_integral_value():
        raise BadAmount(f"{text} is more precise than {currency} ({digits} decimals)")
    return int(scaled)


def decimal_text(amount: int, currency: str) -> str:
    """The decimal string of `amount` minor units, with exactly the decimals of `currency`."""
    digits = exponent(currency)
    return f"{Decimal(amount).scaleb(-digits):.{digits}f}"
