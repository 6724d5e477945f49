"""Delta tables and plain files, on disks and in object stores: what the jobs write, committed as wholes."""
