"""How `kafkalog serve` is watched and ended: a line for each event, figures for the live table, and signals."""

from __future__ import annotations

import json
import signal
import time
from typing import TYPE_CHECKING, Final, Self

from kafkalog_cli.commands.running import SignalFlag, clock_ms
from kafkalog_cli.line_writer import LineWriter
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.render.serve_table import ServeFigures
from kafkalog_core.output.events import EVENT, EVENTS
from kafkalog_core.serve.network.answers import CloseReason
from kafkalog_core.text import count_of, size

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import FrameType

    from kafkalog_cli.options.listening import HostPort
    from kafkalog_core.format.names import DirectoryName
    from kafkalog_core.livebroker.live_server import LiveBroker
    from kafkalog_core.serve.logs.served_holes import ServedHole
    from kafkalog_core.serve.metrics.network_counts import Metrics
    from kafkalog_core.serve.network.answers import ConnectionFacts
    from kafkalog_core.serve.server import ReadOnlyBroker

__all__ = ["ServeLog", "ServeWatch", "Signals"]

_USUAL: Final = frozenset({CloseReason.PEER, CloseReason.IDLE, CloseReason.SHUTDOWN})
_WARNING: Final = "warning: "
_SHOWN_GROUPS: Final = 8
_MOST_LAGS: Final = 2000
_SIGNALS: Final = (
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
)  # those at which a broker stops (`LoggingSignalHandler`)


class ServeLog:
    """Reports events; also an observer of the network, which passes over what is usual. Thread-safe.

    No thread waits for a reader of the lines: see LineWriter. `close` it at the end.
    """

    def __init__(self, form: str, write: Callable[[str], None]) -> None:
        """Begin.

        Args:
            form: `text` or `json`.
            write: takes a line without its end, and may wait for a reader; one thread calls it.
        """
        self._lines = LineWriter(write, self._dropped)
        self.is_json = form == "json"

    def close(self) -> None:
        """Wait a moment until all lines are written."""
        self._lines.close()

    def _dropped(self, number: int) -> str:
        return self._line(
            "serve.dropped", f"{count_of(number, 'line')} left out here: stderr was not read", lines=number
        )

    def event(self, code: str, message: str, **facts: object) -> None:
        """Report an event of EVENTS with its facts."""
        self._lines.write(self._line(code, message, **facts))

    def _line(self, code: str, message: str, **facts: object) -> str:
        declared = EVENTS[code]
        if not self.is_json:
            return f"kafkalog: {safe_text(message)}"
        row = dict.fromkeys(EVENT.names) | {"type": EVENT.name, "time_ms": clock_ms(), "level": declared.level}
        row |= {"code": code, "message": message} | facts
        return json.dumps(row, separators=(",", ":"))  # ASCII alone: the locale does not matter

    # --- the start and the end ----------------------------------------------------------------------------------------
    def note(self, text: str) -> None:
        """Report what the user should know before clients connect."""
        is_warning = text.startswith(_WARNING)
        self.event("serve.warning" if is_warning else "serve.note", text)

    def started(self, line: str, address: HostPort) -> None:
        """Report that clients can connect, as JSON alone: the line itself is written to stdout."""
        if self.is_json:
            self.event("serve.started", line, host=address.host, port=address.port)

    def metrics_started(self, address: HostPort) -> None:
        """Report the address of the metrics."""
        message = f"metrics at http://{address}/metrics"
        self.event("metrics.started", message, host=address.host, port=address.port)

    def stopped(self, requests: int, sent_bytes: int) -> None:
        """Report the end."""
        message = f"stopped after {count_of(requests, 'request')} and {size(sent_bytes)} sent"
        self.event("serve.stopped", message, requests=requests, sent_bytes=sent_bytes)

    # --- events of the broker -----------------------------------------------------------------------------------------
    def hole(self, hole: ServedHole, name: DirectoryName) -> None:
        """Report a place that is skipped; `name`: that of its directory."""
        place = f"bytes {hole.position} to {hole.position + hole.size_bytes - 1}"
        first = "" if hole.first_offset is None else f" (from offset {hole.first_offset} on)"
        self.event(
            "hole.skipped",
            f"hole: {hole.path}: {place} are damaged, and not served{first}: {hole.reason}, {hole.detail}",
            topic=name.topic,
            partition=name.partition,
            path=hole.path,
            position=hole.position,
            size_bytes=hole.size_bytes,
            next_offset=hole.first_offset,
            reason=hole.reason,
            detail=hole.detail,
        )

    def unproved(self, connection: ConnectionFacts, reason: str) -> None:
        """Report a client that does not prove who it is."""
        message = f"refused a client at {connection.peer_host}: authentication failed: {reason}"
        self.event("client.unauthenticated", message, **_peer(connection), detail=reason)

    # --- events of the network ----------------------------------------------------------------------------------------
    def connection_opened(self, connection: ConnectionFacts) -> None:
        """Do nothing: what is usual is not reported."""

    def connection_refused(self, peer_host: str, listener: str, detail: str) -> None:
        """Report a connection that is one too many."""
        message = f"refused a connection of {peer_host}: {detail}"
        self.event("connection.refused", message, peer_host=peer_host, listener=listener, detail=detail)

    def connection_closed(
        self, connection: ConnectionFacts, reason: CloseReason, detail: str, error: BaseException | None
    ) -> None:
        """Report a connection that ends with an error or a refusal."""
        if reason in _USUAL:
            return
        cause = detail or (f"{type(error).__name__}: {error}" if error is not None else "")
        peer = f"{connection.peer_host}:{connection.peer_port}"
        self.event(
            "connection.closed",
            f"closed the connection of {peer}: {reason.value}{f' ({cause})' if cause else ''}",
            **_peer(connection),
            reason=reason.name.lower(),
            detail=cause or None,
            error=None if error is None else type(error).__name__,
        )

    def request_handled(
        self, connection: ConnectionFacts, request_bytes: int, response_bytes: int, duration_s: float
    ) -> None:
        """Do nothing: counters count requests."""

    def bytes_sent(self, connection: ConnectionFacts, size_bytes: int) -> None:
        """Do nothing: counters count bytes."""

    def network_error(self, what: str, error: BaseException) -> None:
        """Report a failure that belongs to no connection."""
        message = f"{what} failed: {type(error).__name__}: {error}"
        self.event("serve.failed", message, detail=f"{what}: {error}", error=type(error).__name__)


def _peer(connection: ConnectionFacts) -> dict[str, object]:
    return {
        "peer_host": connection.peer_host,
        "peer_port": connection.peer_port,
        "listener": connection.listener,
    }


class ServeWatch:
    """Returns the figures of a broker for the live table."""

    def __init__(self, broker: ReadOnlyBroker | LiveBroker, metrics: Metrics, *, skips_damage: bool) -> None:
        """Take a broker and what counts for it."""
        self._broker = broker
        self._traffic = metrics.traffic
        self._skips_damage = skips_damage

    def __call__(self) -> ServeFigures:
        """Return the figures of now; members and lags of the groups that are shown alone."""
        threads, counts, status = self._broker.counters(), self._traffic.counts(), self._broker.status
        shown, group_count = status.first_groups(_SHOWN_GROUPS)
        lags = status.lags((each.name for each in shown), _MOST_LAGS)
        return ServeFigures(
            time_s=time.monotonic(),
            connections=sum(each.connections for each in threads),
            requests=sum(each.requests for each in threads),
            bytes_in=sum(each.bytes_in for each in threads),
            bytes_out=sum(each.bytes_out for each in threads),
            topics=counts.topics,
            groups=shown,
            lags={name: _sum_of([each.lag for each in rows]) for name, rows in lags.items()},
            group_count=group_count,
            holes=sum(counts.holes.values()) if self._skips_damage else None,
        )


def _sum_of(lags: list[int | None]) -> int | None:
    known = [each for each in lags if each is not None]
    return sum(known) if known else None


class Signals:
    """A context in which SIGINT, SIGTERM and SIGHUP only ask for the end, as often as they come.

    A broker that is closing writes what the next start needs, so nothing may end the process there. Before the first
    `wait` a signal raises KeyboardInterrupt; while a directory is recovered, the second one does, as a recovery can be
    repeated. A SIGHUP that the process ignores (nohup) is still ignored.
    """

    def __init__(self, *, recovers: bool) -> None:
        """Begin. recovers: whether the start writes to a directory."""
        self._recovers = recovers
        self._asked = SignalFlag()
        self._is_starting = True

    def __enter__(self) -> Self:
        self._before = {number: signal.getsignal(number) for number in _SIGNALS}
        for number, before in self._before.items():
            if number != signal.SIGHUP or before is not signal.SIG_IGN:
                signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)

    def wait(self, seconds: float) -> bool:
        """Wait for a signal, at most for a time; return whether there was one."""
        self._is_starting = False
        return self._asked.wait(seconds)

    def _note(self, number: int, frame: FrameType | None) -> None:
        del number, frame
        if self._is_starting and (self._asked.is_set() or not self._recovers):
            raise KeyboardInterrupt
        self._asked.set()
