"""`replicas`: a comparison of the copies of a partition on several disks, and which one to keep.

`comparison` reads the copies in step by their offsets, and record by record where batches differ; `verdict` adds up the
differences and decides which copy is true; `compare` makes rows and findings of them.
"""
