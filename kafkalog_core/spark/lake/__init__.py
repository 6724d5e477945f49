"""Delta tables on disks and object stores: what the jobs write, committed as wholes."""
