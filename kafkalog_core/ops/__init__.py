"""The verbs: a package or a module per command that works on logs, and what repairing verbs share (`repair`)."""
