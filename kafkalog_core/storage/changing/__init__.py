"""Changing a disk: what may be done as values, the one door that does it, and the journal to take it back."""
