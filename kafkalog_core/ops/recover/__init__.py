"""A broken disk, brought back with the least loss by which a broker starts.

`kafkalog recover`, in the order of its work:

- `recover`: the planner of one log directory: its partitions, its text files, then a simulated start on the result.
- `replicas`: whether other replicas are in sync, by the metadata log: then the log is truncated, and not excised.
- `partition`: the steps of one partition, and what a broker would lose by itself.
- `joined`: a stage that joins the changes of all steps, and shows the result of one to the next.

`kafkalog excise`, which `partition` uses too:

- `excise`: the planner of single offsets, and the findings of an excision.
- `renaming`: segments with names above their first batch get the right ones.
- `places`: `find_places` reads a partition once, past damage, and returns every place at which a broker would stop.
- `order`: two neighbouring batches that were exchanged, and runs of batches with moved offsets.
- `clues`, `headers`: what is known of a damaged batch, by its header, its neighbours, snapshots and transaction logs.
- `replacements`: what can take the place of each: an empty batch, a mended header, a rebuilt marker, or nothing.
- `excised`: a place with what takes it, and what readers lose.
- `excision`: `excise` decides which of these it is, and `stage_excision` stages the new segments with their indexes.
"""
