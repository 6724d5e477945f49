"""Atomic commits of Parquet files and a state to an output directory."""
