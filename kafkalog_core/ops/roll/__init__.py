"""`roll`: where logs roll under other settings (`forecast`), and such logs in a new log directory (`roll`)."""
