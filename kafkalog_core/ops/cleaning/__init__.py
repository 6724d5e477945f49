"""What a broker's cleaner does to a log: which offsets, which batches and records, what is written."""
