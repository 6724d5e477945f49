"""Changes to a disk: planned changes as values, the one module that writes, and the journal that undoes a run."""
