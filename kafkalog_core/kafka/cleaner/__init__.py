"""cleaner."""
