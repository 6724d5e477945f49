"""`kafkalog groups`: where each group stood, on the disks of stopped brokers."""
