"""The verbs: one module per command that works on a log."""
