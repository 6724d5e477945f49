"""Cutting the end of a log off: where, what is lost with it, and which files have to follow."""
