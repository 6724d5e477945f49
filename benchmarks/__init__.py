"""Benchmarks of kafkalog: seeded data, and figures side by side in one run. They never decide a test."""
