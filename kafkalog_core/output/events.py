"""What `kafkalog serve` reports while it runs: one declaration of its events, for JSON lines and for the documentation.

Every event is a row of the type `event`. A column that does not belong to an event is null.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import TYPE_CHECKING, Final, Literal, NamedTuple

from kafkalog_core.output.schema import Column, new_table

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["EVENT", "EVENTS", "EventType"]

EVENT: Final = new_table(
    "event",
    Column("time_ms", "int64", "when it was reported"),
    Column("level", "string", "info, warning or error"),
    Column("code", "string", "stable code of the event"),
    Column("message", "string", "the sentence that is shown without --log json"),
    Column("peer_host", "string", "address of the client"),
    Column("peer_port", "int32", "port of the client"),
    Column("listener", "string", "name of the listener that the client is connected to"),
    Column("topic", "string", "topic of the damaged place"),
    Column("partition", "int32", "its partition"),
    Column("path", "string", "its file"),
    Column("position", "int64", "its first byte in the file"),
    Column("size_bytes", "int64", "its size"),
    Column("next_offset", "int64", "the offset that is expected there; null: unknown"),
    Column("reason", "string", "why, as a stable word: of damage rows, or why a connection was closed"),
    Column("detail", "string", "why, as a text for people"),
    Column("error", "string", "name of the exception"),
    Column("host", "string", "address that kafkalog listens on"),
    Column("port", "int32", "its port"),
    Column("requests", "int64", "requests since the start"),
    Column("sent_bytes", "int64", "bytes sent since the start"),
    Column("lines", "int64", "lines that were left out"),
)


class EventType(NamedTuple):
    """An event: `facts` are the columns that it has after the message; some may be null."""

    level: Literal["info", "warning", "error"]
    meaning: str
    facts: tuple[str, ...] = ()


_PEER: Final = ("peer_host", "peer_port", "listener")
_HOLE: Final = ("topic", "partition", "path", "position", "size_bytes", "next_offset", "reason", "detail")

EVENTS: Final[Mapping[str, EventType]] = MappingProxyType(
    {
        "serve.note": EventType("info", "something to know about the disks or the users, before clients connect"),
        "serve.warning": EventType("warning", "the way in which kafkalog was started is a risk"),
        "serve.refused": EventType(
            "error", "kafkalog could not serve, or could not stop cleanly, and ends with exit status 3"
        ),
        "serve.started": EventType("info", "clients can connect", ("host", "port")),
        "serve.stopped": EventType("info", "the end, by a signal or --for", ("requests", "sent_bytes")),
        "metrics.started": EventType("info", "GET /metrics is answered", ("host", "port")),
        "hole.skipped": EventType("warning", "a damaged place that clients do not get", _HOLE),
        "client.unauthenticated": EventType("warning", "a client did not prove who it is", (*_PEER, "detail")),
        "connection.refused": EventType("warning", "one connection too many", ("peer_host", "listener", "detail")),
        "connection.closed": EventType(
            "warning",
            "kafkalog closed a connection: a request that it does not serve, an invalid frame, an error",
            (*_PEER, "reason", "detail", "error"),
        ),
        "serve.dropped": EventType("warning", "stderr was not read, and lines were left out", ("lines",)),
        "serve.failed": EventType("error", "something failed that belongs to no connection", ("detail", "error")),
    }
)
