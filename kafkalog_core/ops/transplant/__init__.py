"""`transplant`: makes the log directories of one cluster belong to another."""
