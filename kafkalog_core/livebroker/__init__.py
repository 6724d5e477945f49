"""A small live broker for end-to-end checks: everything of a broker that writes.

- `live_server` puts it together, over the handlers and the network of `serve`.
- `disks`, `logs`: the log directory, the metadata log and the logs of partitions, read and written.
- `topics`, `groups`, `share`, `transactions`: requests that change something, and the coordinators.
- `security`, `quotas`: what a client may do, and how much of it.
"""
