"""The whole public API of kafkalog."""
