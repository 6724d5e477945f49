"""`replicas`: a comparison of the copies of each partition on several disks, and which one to keep.

`kafkalog_core.ops.copies` compares; `choices` counts what each choice costs the groups of consumers.
"""
