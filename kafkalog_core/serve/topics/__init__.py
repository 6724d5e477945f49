"""Requests about topics and their records."""
