"""Stripe: payments and refunds through the official SDK, looked for by listing. `adapter` is the way in."""

from ledger.providers.stripe.adapter import Stripe

__all__ = ["Stripe"]
