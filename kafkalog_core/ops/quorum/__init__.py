"""`kafkalog quorum`: the disks of the controllers when the quorum cannot form."""
