"""seek."""
