"""`replicas`: a comparison of the copies of a partition on several disks, and which one to keep.

`cursor` reads one copy, `lockstep` several of them side by side by their offsets, `contents` looks into batches that
differ. `differences` sums up, `epochs` is Kafka's rule of truncation, `verdict` decides what is true and what to do.
"""
