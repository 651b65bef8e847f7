"""Money on the supplier's wire: exact decimal strings in each currency's own exponent (JPY 0, EUR 2, KWD 3).

Never a float, never rounded: a text that does not fit the currency is refused.
"""

import re
from decimal import Decimal

from iso4217 import Currency

_DECIMAL = re.compile(r"\d{1,12}(\.\d{1,6})?", re.ASCII)


class BadAmount(ValueError):
    """The text is no amount of this currency; the message says why."""


def exponent(currency: str) -> int:
    """How many decimals `currency` (ISO 4217, upper case) has; BadAmount when there is no such currency."""
    try:
        digits = Currency(currency).exponent
    except ValueError:
        digits = None
    if digits is None or currency != currency.upper():
        raise BadAmount(f"{currency!r} is not an ISO 4217 currency code that has amounts")
    return int(digits)


def minor_units(text: object, currency: str) -> int:
    """Integer of minor units for a decimal string such as "125.00"; BadAmount when it is not exact in `currency`."""
    digits = exponent(currency)
    if not isinstance(text, str) or not _DECIMAL.fullmatch(text):
        raise BadAmount(f'an amount is a decimal string such as "125.00", not {text!r}')
    scaled = Decimal(text).scaleb(digits)
    if scaled != scaled.to_integral_value():
        raise BadAmount(f"{text} is more precise than {currency}, which has {digits} decimals")
    return int(scaled)


def decimal_text(amount_minor: int, currency: str) -> str:
    """The decimal string of an integer of minor units, with exactly the decimals of `currency`."""
    digits = exponent(currency)
    return f"{Decimal(amount_minor).scaleb(-digits):.{digits}f}"
