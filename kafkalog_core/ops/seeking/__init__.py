"""What `seek` asks and answers."""
