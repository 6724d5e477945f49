"""Bytes to values and back: pure functions, no files, no clock, no logging."""
