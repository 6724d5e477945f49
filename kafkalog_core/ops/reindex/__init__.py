"""reindex."""
