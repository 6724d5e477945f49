"""`kafkalog serve`: a dead disk, read-only, for any Kafka client."""

from __future__ import annotations

import json
import signal
import threading
import time
import uuid
from contextlib import ExitStack, closing
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from kafkalog_cli.command import Command, Example, ExitStatus
from kafkalog_cli.line_writer import LineWriter, write_to_stderr
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.listening import HostPort, is_loopback, listening_options, parse_endpoint
from kafkalog_cli.render.cells import safe_text
from kafkalog_cli.running import clock_ms, warn_of_interpreted
from kafkalog_core.broker.answers import CloseReason
from kafkalog_core.broker.live_disks import LiveDisks
from kafkalog_core.broker.live_server import LiveBroker
from kafkalog_core.broker.live_settings import LiveSettings
from kafkalog_core.broker.metrics import Metrics, MetricsEndpoint
from kafkalog_core.broker.partition_view import ViewOptions
from kafkalog_core.broker.served_disks import DiskOptions, ServedDisks
from kafkalog_core.broker.server import ReadOnlyBroker
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.text import count_of, size

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import FrameType

    from kafkalog_cli.options.listening import Listening
    from kafkalog_core.broker.answers import ConnectionFacts
    from kafkalog_core.broker.partition_view import ServedHole
    from kafkalog_core.ops.reading.selection import Selection

__all__ = ["serve_command"]

EXAMPLES = (
    Example("kafkalog serve /var/lib/kafka", "The topics on this disk, for clients on this machine"),
    Example(
        "kafkalog serve /mnt/broker1 /mnt/broker2 --listen 0.0.0.0:9092 --advertise forensics.example:9092",
        "The disks of two brokers of one cluster, for clients on other machines",
    ),
    Example("kafkalog serve --at 2026-11-20T03:00 /var/lib/kafka", "As they were before the night's accident"),
    Example("kafkalog serve --on-damage stop /var/lib/kafka", "Damaged batches as a broker would serve them"),
    Example("kafkalog serve --read-write /tmp/kafka --set log.retention.ms=-1", "A live broker that keeps old data"),
)
_SWEEP_SECONDS: Final = 0.25
_OPEN: Final = "every client that can reach this address can {} every topic, because there is no authentication"
_USUAL: Final = frozenset({CloseReason.PEER, CloseReason.IDLE, CloseReason.SHUTDOWN})


def parse_seconds(text: str) -> float:
    """Return a positive number of seconds. Raises BadParameter."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds < threading.TIMEOUT_MAX:
        raise click.BadParameter(f"{text!r} is not a positive number of seconds")
    return seconds


@click.command(
    name="serve",
    cls=Command,
    examples=EXAMPLES,
    exit_statuses=(ExitStatus.CLEAN, ExitStatus.CRASH, ExitStatus.USAGE, ExitStatus.REFUSED),
)
@common.targets_argument
@listening_options
@click.option(
    "--on-damage",
    type=click.Choice(("skip", "stop")),
    default="skip",
    show_default=True,
    help="skip serves the batches before and after damage, and reports each hole; stop serves it as a broker would.",
)
@click.option(
    "--high-watermark",
    type=click.Choice(("end", "checkpoint")),
    default="end",
    show_default=True,
    help=(
        "How far consumers may read: to the end of the log, or to the checkpointed high watermark, which is too low "
        "after a crash."
    ),
)
@click.option(
    "--at",
    type=common.parse_time_ms,
    metavar="TIME",
    help="Serve the disks as they were at this time, as far as they still hold it: each log ends at its first batch "
    "with a later timestamp, and offsets that groups committed later are left out.",
)
@click.option(
    "--set-aside",
    type=click.Choice((DirectoryState.DELETE.value, DirectoryState.STRAY.value)),
    multiple=True,
    help=(
        "Also serve directories that a broker renamed to -delete or -stray, as topics orders.delete and orders.stray. "
        "Repeatable."
    ),
)
@click.option(
    "--commits",
    type=click.Choice(("memory", "refuse")),
    default="memory",
    show_default=True,
    help="Offsets that consumer groups commit: kept in memory until kafkalog stops, or refused.",
)
@click.option(
    "--node-id",
    type=click.IntRange(min=0),
    metavar="N",
    help="Id of the broker that clients see.  [default: that of the first disk]",
)
@click.option(
    "--for",
    "seconds",
    type=parse_seconds,
    metavar="SECONDS",
    help="Stop after this time.  [default: at Ctrl-C or SIGTERM]",
)
@click.option(
    "--log",
    "log_form",
    type=click.Choice(("text", "json")),
    default="text",
    show_default=True,
    help="Form of the lines on stderr: holes, connections that are refused or fail.",
)
@click.option(
    "--read-write",
    is_flag=True,
    help="Be a small live broker on one log directory: clients create topics, produce and commit to it. An empty "
    "directory becomes that of a new cluster.",
)
@click.option(
    "--set",
    "assignments",
    multiple=True,
    metavar="KEY=VALUE",
    help="With --read-write: a setting of the broker by its name in server.properties, such as log.retention.ms=-1; "
    "repeatable.",
)
@click.option(
    "--metrics",
    type=parse_endpoint,
    metavar="HOST:PORT",
    help="Also answer GET /metrics there, as text for Prometheus: requests, bytes, connections, groups, holes.",
)
@common.selection_options
@common.limit_options
def serve_command(paths: tuple[str, ...], selection: Selection, listening: Listening, **given: Any) -> int:
    """Serve the topics on the disks of a dead broker to any Kafka client, or be a small live broker.

    PATH is a log directory, a partition directory or a glob of them, of one broker or of several brokers of one
    cluster. kafkalog answers as one broker: consumers, consumer groups, kcat and Kafka's own tools read from it.
    Without --read-write nothing is written to the disks, and no index is needed. Of several copies of a partition, the
    one with the latest leader epoch is served, then the longest. Offsets that groups had committed are read from
    __consumer_offsets.

    With --read-write PATH is one log directory, which kafkalog locks, recovers after a crash as a broker would, and
    writes as a broker does: a broker may go on with it afterwards.

    Once clients can connect, kafkalog prints one line to stdout, which ends with the address. It stops at Ctrl-C or
    SIGTERM, with exit status 0.
    """
    warn_of_interpreted()
    log = _Log(given["log_form"])
    click.get_current_context().call_on_close(log.close)
    metrics = Metrics(log)
    if given["read_write"]:
        return _serve_live(paths, selection, listening, (log, metrics), given)
    if given["assignments"]:
        raise click.UsageError("--set is for --read-write: nothing is written here")
    options = DiskOptions(
        view=ViewOptions(
            on_damage=given["on_damage"],
            until_ms=given["at"],
            max_batch_bytes=given["max_batch_bytes"],
            notify=_Holes(log, metrics),
        ),
        high_watermark=given["high_watermark"],
        set_aside=frozenset(map(DirectoryState, given["set_aside"])),
        node_id=given["node_id"],
    )
    with ExitStack() as stack:
        disks = stack.enter_context(closing(ServedDisks(resolve_all(paths, selection), options)))
        broker = ReadOnlyBroker(
            disks,
            listening.broker_options(disks.log_dirs, log.message, log.unproved, given["commits"]),
            clock=time.monotonic,
            clock_ms=clock_ms,
            new_member_id=lambda client_id: f"{client_id}-{uuid.uuid4()}",
            observer=metrics,
            decoded=metrics.request_decoded,
        )
        return _run(stack, (log, metrics), disks, broker, listening, given)


def _serve_live(
    paths: tuple[str, ...],
    selection: Selection,
    listening: Listening,
    observers: tuple[_Log, Metrics],
    given: Mapping[str, Any],
) -> int:
    """Be a live broker on one directory."""
    log, metrics = observers
    if len(paths) != 1 or not selection.is_everything:
        raise click.UsageError("--read-write takes one log directory, and serves all of it")
    for name in ("on_damage", "at", "high_watermark", "set_aside", "commits", "node_id"):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for disks that are only read; omit --read-write")
    with ExitStack() as stack:
        disks = stack.enter_context(
            closing(
                LiveDisks(
                    paths[0],
                    LiveSettings.of(given["assignments"]),
                    clock_ms=clock_ms,
                    new_id=lambda: uuid.uuid4().bytes,
                )
            )
        )
        broker = LiveBroker(
            disks,
            listening.broker_options(paths, log.message, log.unproved, live_users=disks.users),
            clock=time.monotonic,
            clock_ms=clock_ms,
            new_member_id=lambda client_id: f"{client_id}-{uuid.uuid4()}",
            observer=metrics,
            decoded=metrics.request_decoded,
        )
        return _run(stack, observers, disks, broker, listening, given)


def _run(
    stack: ExitStack,
    observers: tuple[_Log, Metrics],
    disks: ServedDisks | LiveDisks,
    broker: ReadOnlyBroker | LiveBroker,
    listening: Listening,
    given: Mapping[str, Any],
) -> int:
    """Serve until a signal, or until the time is over."""
    (log, metrics), seconds, address = observers, given["seconds"], given["metrics"]
    with stack:
        if address is not None:
            text = partial(_text_of, metrics, broker)
            endpoint = stack.enter_context(MetricsEndpoint(address.host, address.port, text))
            if not is_loopback(address.host):
                log.message("warning: everybody who can reach the address of --metrics can read them")
            log.message(f"metrics at http://{HostPort(address.host, endpoint.port)}/metrics")
        stop = _until_signal(stack)
        stack.enter_context(broker)
        _introduce(log, disks, broker, listening)
        end_s = None if seconds is None else time.monotonic() + seconds
        while not stop.wait(_SWEEP_SECONDS):
            broker.sweep()
            if end_s is not None and time.monotonic() >= end_s:
                break
        requests, sent = broker.requests()
    log.message(f"stopped after {count_of(requests, 'request')} and {size(sent)} sent")
    return ExitStatus.CLEAN


def _text_of(metrics: Metrics, broker: ReadOnlyBroker | LiveBroker) -> str:
    return metrics.text(broker.group_states())


def _introduce(
    log: _Log, disks: ServedDisks | LiveDisks, broker: ReadOnlyBroker | LiveBroker, listening: Listening
) -> None:
    """Print what is served and where to stdout, and what the user should know to stderr."""
    for note in (*disks.notes, *broker.notes):
        log.message(note)
    if listening.is_open and not listening.is_loopback:
        what = "read and write" if isinstance(disks, LiveDisks) else "read"
        log.message(f"warning: {_OPEN.format(what)}")
    address = HostPort(broker.addresses[0].host, broker.addresses[0].port)
    if listening.sasl_listen is not None:
        log.message(f"clients authenticate at {HostPort(broker.addresses[-1].host, broker.addresses[-1].port)}")
    partitions = sum(len(topic.copies) for topic in disks.topics.values())
    what = f"{count_of(len(disks.topics), 'topic')} with {count_of(partitions, 'partition')}"
    how = "read-write" if isinstance(disks, LiveDisks) else "read-only"
    click.echo(f"serving {what} of cluster {disks.cluster_id} as broker {disks.node_id}, {how}, at {address}")


def _until_signal(stack: ExitStack) -> threading.Event:
    """Return an event that SIGINT and SIGTERM set; the handlers of before are back once `stack` is closed."""
    stop = threading.Event()

    def note(number: int, frame: FrameType | None) -> None:
        del number, frame
        stop.set()

    for number in (signal.SIGINT, signal.SIGTERM):
        stack.callback(signal.signal, number, signal.signal(number, note))
    return stop


class _Holes:
    """Reports each place that is skipped, and counts it."""

    def __init__(self, log: _Log, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def __call__(self, hole: ServedHole) -> None:
        self._metrics.hole_skipped()
        self._log.hole(hole)


class _Log:
    """Lines on stderr, as text or as JSON, of several threads; also the observer of the network. No thread waits."""

    def __init__(self, form: str) -> None:
        self._is_json = form == "json"
        self._lines = LineWriter(write_to_stderr, self._dropped)

    def message(self, text: str, **values: object) -> None:
        """Write one line; `values` are further members of the JSON object."""
        self._lines.write(self._line(text, values))

    def _line(self, text: str, values: Mapping[str, object]) -> str:
        if self._is_json:
            return json.dumps({"type": "message", "time_ms": clock_ms(), "message": text, **values})
        return f"kafkalog: {safe_text(text)}"

    def _dropped(self, number: int) -> str:
        return self._line(f"{count_of(number, 'line')} left out here: stderr was not read", {"dropped_lines": number})

    def close(self) -> None:
        """Wait a moment until all lines are written."""
        self._lines.close()

    def hole(self, hole: ServedHole) -> None:
        """Report a place that is skipped."""
        place = f"bytes {hole.position} to {hole.position + hole.size_bytes - 1}"
        first = "" if hole.first_offset is None else f" (from offset {hole.first_offset} on)"
        self.message(
            f"hole: {hole.path}: {place} are damaged, and not served{first}: {hole.reason}, {hole.detail}",
            path=hole.path,
            position=hole.position,
            size_bytes=hole.size_bytes,
            reason=hole.reason,
            next_offset=hole.first_offset,
        )

    def unproved(self, connection: ConnectionFacts, reason: str) -> None:
        """Report a client that does not prove who it is."""
        self.message(f"refused a client at {connection.peer_host}: authentication failed: {reason}")

    def connection_opened(self, connection: ConnectionFacts) -> None:
        """Do nothing: what is usual is not reported."""

    def connection_refused(self, peer_host: str, listener: str, detail: str) -> None:
        """Report a connection that is one too many."""
        del listener
        self.message(f"refused a connection of {peer_host}: {detail}")

    def connection_closed(
        self, connection: ConnectionFacts, reason: CloseReason, detail: str, error: BaseException | None
    ) -> None:
        """Report a connection that ends with an error or a refusal."""
        if reason in _USUAL:
            return
        cause = detail or (f"{type(error).__name__}: {error}" if error is not None else "")
        peer = f"{connection.peer_host}:{connection.peer_port}"
        self.message(f"closed the connection of {peer}: {reason.value}{f' ({cause})' if cause else ''}")

    def request_handled(
        self, connection: ConnectionFacts, request_bytes: int, response_bytes: int, duration_s: float
    ) -> None:
        """Do nothing: counters count requests."""

    def bytes_sent(self, connection: ConnectionFacts, size_bytes: int) -> None:
        """Do nothing: counters count bytes."""

    def network_error(self, what: str, error: BaseException) -> None:
        """Report a failure that belongs to no connection."""
        self.message(f"{what} failed: {type(error).__name__}: {error}")
