"""`replicas`: a comparison of the copies of a partition on several disks, and which one to keep.

`comparison` reads the copies in step by their offsets, and record by record where batches differ; `differences` adds up
what each lacks or has alone; `verdict` decides which copy is true; `choices` counts what each choice costs the groups
of consumers; `compare` makes rows and findings of them.
"""
