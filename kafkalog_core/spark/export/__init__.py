"""The export of records as Parquet files, by topic and partition."""
