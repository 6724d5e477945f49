"""Authentication: who a client is."""
