"""Consumer groups of both protocols, and their offsets."""
