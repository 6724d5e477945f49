"""Option groups that several commands share."""
