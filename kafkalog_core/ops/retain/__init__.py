"""retain."""
