"""`kafkalog groups`: the offsets, members and lag of each group, on the disks of stopped brokers."""
