"""Plans of repairs: how they are made, shown, kept as JSON, and taken up again."""
