"""Test suites and programs of real Kafka clients, as judges of `kafkalog serve --read-write`."""
