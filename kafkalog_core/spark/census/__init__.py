"""The catalogue's own files and tasks: what is known of each segment, so that it need not be read again."""
