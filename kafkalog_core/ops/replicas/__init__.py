"""`replicas`: the copies of a partition on several disks beside each other, and which one to keep.

`cursor` reads one copy, `lockstep` several of them side by side by their offsets, `contents` looks into batches that
differ. `differences` sums up, `epochs` is Kafka's rule of truncation, `verdict` says what is true and what to do.
"""
