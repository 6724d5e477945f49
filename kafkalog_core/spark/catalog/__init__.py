"""The catalog of many disks: segments, batches, partitions and findings as Parquet, updated by each run."""
