"""Small faults put into the code that the laws live in, one at a time, to see whether a test notices (`make mutation`)."""
