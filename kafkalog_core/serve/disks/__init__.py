"""Log directories: dead ones, and the one of a live broker."""
