"""Money is printed from minor units by the currency's own exponent, sign and code always there."""

import pytest

from ledger.money import UnknownCurrency, exponent, money_text


@pytest.mark.parametrize(
    ("minor", "currency", "expected"),
    [
        (4250, "GBP", "£42.50 GBP"),
        (-4250, "GBP", "\u2212£42.50 GBP"),
        (1234567, "EUR", "€12,345.67 EUR"),
        (500, "JPY", "¥500 JPY"),
        (12345, "KWD", "12.345 KWD"),
        (5, "BHD", "0.005 BHD"),
        (0, "USD", "$0.00 USD"),
    ],
)
def test_money_text(minor, currency, expected):
    assert money_text(minor, currency) == expected


@pytest.mark.parametrize("code", ["ZZZ", "gbp", "", "XAU"])
def test_what_is_no_countable_currency_is_refused(code):
    with pytest.raises(UnknownCurrency):
        exponent(code)
