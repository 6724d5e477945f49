"""Everything that a person sees; the only package that imports rich."""
