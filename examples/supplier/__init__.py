"""The supplier simulator: an honest stand-in for somebody else's ordering system, in its own process.

It knows nothing of Countermand and imports nothing of it. It keeps its own store, executes what it accepts, and can be
told through `/control` to be slow, silent, broken or careless, which is how real suppliers behave on bad days.
"""
