"""The disks of dead brokers, served to Kafka clients; nothing here writes.

- `server` puts a read-only broker together; `network.requests` finds the handler of a request.
- `network`: sockets, frames, connections and the threads that serve them (Kafka's `SocketServer`).
- `disks`, `logs`: log directories and the logs of their partitions, as clients read them.
- `topics`, `groups`, `transactions`: the handlers; groups are kept in memory.
- `security`: who a client is. `metrics`: what is counted meanwhile.
"""
