"""Producer states and transactions, replayed from batches."""
