"""Damaged places in logs, and what takes their place so that a broker keeps everything else.

- `places`: `find_places` reads a partition once, past damage, and returns every place at which a broker would stop.
- `excision`: `excise` decides what takes the place of each (an empty batch, a mended header, a rebuilt marker, or
  nothing), `stage_excision` stages the new segments with their indexes in a plan.
"""
