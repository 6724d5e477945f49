"""`usage`: what takes the space of a log directory.

`disk_items` says of every file and directory what it is and what it takes; `usage` adds them up; `rows` makes rows of
the sums.
"""
