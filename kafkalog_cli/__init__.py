"""The command line of kafkalog."""
