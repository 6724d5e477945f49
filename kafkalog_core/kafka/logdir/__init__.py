"""logdir."""
