"""Money as people read it. Amounts are integers of minor units; how many digits those have comes from ISO 4217, never from `/100`."""

from __future__ import annotations

import iso4217

MINUS = "\u2212"
SYMBOLS = {
    "GBP": "£",
    "EUR": "€",
    "USD": "$",
    "JPY": "¥",
    "CNY": "CN¥",
    "INR": "₹",
    "KRW": "₩",
    "CAD": "CA$",
    "AUD": "A$",
    "NZD": "NZ$",
    "BRL": "R$",
    "ILS": "₪",
    "UAH": "₴",
    "TRY": "₺",
    "VND": "₫",
}


class UnknownCurrency(ValueError):
    """The code is not an ISO 4217 currency that money can be counted in."""


def exponent(currency: str) -> int:
    """Digits of the minor unit: GBP 2, JPY 0, KWD 3. Raises UnknownCurrency, also for codes without one (gold, XXX)."""
    try:
        digits = iso4217.Currency(currency).exponent
    except ValueError as error:
        raise UnknownCurrency(f"{currency!r} is not an ISO 4217 currency code") from error
    if digits is None:
        raise UnknownCurrency(f"{currency!r} has no minor unit")
    return int(digits)


def decimal_text(minor: int, currency: str) -> str:
    """The amount in major units, grouped, sign in front: 1234567 KWD → `1,234.567`, -5 JPY → `−5`."""
    digits = exponent(currency)
    whole, rest = divmod(abs(minor), 10**digits)
    text = f"{whole:,}.{rest:0{digits}d}" if digits else f"{whole:,}"
    return (MINUS if minor < 0 else "") + text


def money_text(minor: int, currency: str) -> str:
    """Symbol, amount and code: `£42.50 GBP`, `−¥500 JPY`, `12.345 KWD`. The code is never left out."""
    text = decimal_text(abs(minor), currency)
    return f"{MINUS if minor < 0 else ''}{SYMBOLS.get(currency, '')}{text} {currency}"
