"""What the paths and options of a command mean: targets, and what is chosen of them."""
