"""`verify`: everything that is wrong with a disk, and nothing that is not.

A segment is checked by itself, in any process (`segment`); what only the whole partition can tell is checked over the
verdicts of its segments in their order (`partition`), and what only the log directory can tell over those (`logdir`).
"""
