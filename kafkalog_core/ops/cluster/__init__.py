"""`cluster`: the cluster that the metadata log on the disks describes."""
