"""A log directory served to Kafka clients: the disk of a dead broker, or a small live one.

- `server` and `live_server` put a broker together; `requests` finds the handler of a request.
- `network`: sockets, frames, connections and the threads that serve them (Kafka's `SocketServer`).
- `disks`, `logs`: log directories and the logs of their partitions, read and written.
- `topics`, `groups`, `share`, `transactions`: the handlers and the coordinators.
- `security`, `quotas`: what a client may do, and how much of it.
- `metrics`: what is counted meanwhile.
"""
