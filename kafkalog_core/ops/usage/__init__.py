"""What takes the space of a log directory, what of it can be freed, and what can be kept of what a broker deletes.

`disk_items` says of every file and directory what it is and what it takes; `usage` adds them up in `sums`, with what
`outlook` expects of retention and compaction; `rows` makes rows of the sums. `freeze` keeps files by hard links in a
`frozen_dir`; `freezing` says which, `freeze_place` where that can be. `free` plans what to delete.
"""
