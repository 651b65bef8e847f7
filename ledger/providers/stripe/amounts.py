"""Between our minor units (ISO 4217) and the integers of Stripe's API, which differ for a few currencies. Nothing is rounded.

Source: Stripe's "Supported currencies", on minor units, three-decimal currencies and special cases.
"""

from ledger.providers.money import BadAmount, decimal_text, exponent

_DECIMALS = {"ISK": 2, "UGX": 2, "MGA": 0}
"""Where Stripe counts other decimals than ISO 4217 does."""


def to_stripe(amount: int, currency: str) -> int:
    """The integer that Stripe wants for `amount` minor units; BadAmount, with the remedy, where it has none."""
    ours = exponent(currency)
    theirs = _DECIMALS.get(currency, ours)
    if ours > 3:
        raise BadAmount(f"Stripe takes no {currency}.")
    if amount <= 0:
        raise BadAmount(f"{decimal_text(amount, currency)} {currency}: Stripe moves amounts of more than 0.")
    wire, rest = divmod(amount * 10**theirs, 10**ours)
    if rest:
        raise BadAmount(f"{decimal_text(amount, currency)} {currency}: Stripe takes whole units of {currency} only.")
    if ours == 3 and wire % 10:
        text, near = decimal_text(amount, currency), decimal_text(amount - amount % 10, currency)
        raise BadAmount(f"{text} {currency}: Stripe wants the last of three decimals to be 0, as in {near}. Nothing is rounded here.")
    return wire


def from_stripe(wire: object, currency: object) -> tuple[int, str]:
    """(minor units, ISO 4217 code) of what Stripe said; BadAmount for anything but an exact integer of a known currency."""
    if not isinstance(currency, str) or currency != currency.lower():
        raise BadAmount(f"{currency!r} is no currency as Stripe writes it")
    code = currency.upper()
    ours = exponent(code)
    if not isinstance(wire, int) or isinstance(wire, bool) or wire < 0:
        raise BadAmount(f"{wire!r} is no integer of minor units")
    amount, rest = divmod(wire * 10**ours, 10 ** _DECIMALS.get(code, ours))
    if rest:
        raise BadAmount(f"{wire} is more precise than {code}")
    return amount, code
