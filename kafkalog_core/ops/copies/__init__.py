"""The copies of one partition on several disks: what they differ in, and which history the cluster continued.

`comparison` reads the copies in step by their offsets, and record by record where batches differ; `differences` adds up
what each lacks or has alone; `verdict` decides which copy is true; `compare` makes rows and findings of them.

`replicas` prints them, `recover` asks which of two copies makes way, and `diff` reads two logs in step.
"""
