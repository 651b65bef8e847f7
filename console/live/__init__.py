"""Keeps open pages live (docs/live.md). The only websocket code; push is a hint, the database is the truth.

`socket` and `polling` are the doors; `hub` follows the tail; `pulse` goes by the clock; `comparing` answers a `watch`; `shelf` keeps
what is rendered; `database` reads and renders. Nothing here acts on a run.
"""
