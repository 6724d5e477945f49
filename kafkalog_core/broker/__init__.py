"""A log directory served to Kafka clients: the disk of a dead broker, or a small live one.

- `network`: the server and the only module with sockets (Kafka's `SocketServer`). `processors` are its threads, and
  `connections` the half-read request and the answer in flight of one client.
- `answers`: what a request handler and the network exchange, as values; importing it imports no socket.
"""
