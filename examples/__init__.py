"""What stands around Countermand in the demo and in tests: somebody else's system, and an agent that uses it."""
