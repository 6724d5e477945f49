"""`checkpoint`: shows and checks the text files of a log directory, and repairs them from the logs."""
