"""The data pipeline on Spark: the same checks, exports and plans as on one machine, by the workers of a cluster."""
