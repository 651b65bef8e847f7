"""Any JSON API, described by settings alone. `adapter` is the way in, `settings` lists what can be said."""

from ledger.providers.http.adapter import Http

__all__ = ["Http"]
