"""One declaration of every result row: names, types, units."""
