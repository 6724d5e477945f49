"""The filter of batches and records: one expression, which the library, dump, seek and Spark share."""
