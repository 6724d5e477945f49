"""The data source `kafkalog`, its options, and SQL over its tables."""
