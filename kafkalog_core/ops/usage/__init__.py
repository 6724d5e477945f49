"""What uses a disk, what can be freed, and what can be kept of what a broker is about to delete."""
