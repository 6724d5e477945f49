"""The Spark session, its errors, executors as workers, and rows as Arrow and Parquet."""
