"""Pictures of every page and main dialog, taken from a real demo that is brought into each situation by its own buttons."""
