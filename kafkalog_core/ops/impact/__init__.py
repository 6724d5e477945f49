"""`kafkalog impact`: what a plan, a replica or the next start means for the consumers whose offsets are on the disks."""
