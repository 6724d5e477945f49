"""What is counted while a broker runs."""
