"""Finding records by offset or time: through the indexes as a broker does, or by every index at once."""
