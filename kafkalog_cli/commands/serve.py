"""`kafkalog serve`: a dead disk, read-only, for any Kafka client, or with --read-write a small live broker."""

from __future__ import annotations

import os
import sys
import threading
import time
import uuid
from contextlib import ExitStack, closing
from typing import TYPE_CHECKING, Any, Final

import click
from click.core import ParameterSource

from kafkalog_cli.command import Command, Example, ExitStatus, status_of
from kafkalog_cli.commands.running import clock_ms, interpreted_warning
from kafkalog_cli.commands.serve_log import ServeLog, ServeWatch, Signals
from kafkalog_cli.options import common
from kafkalog_cli.options.common import resolve_all
from kafkalog_cli.options.listening import HostPort, is_loopback, listening_options, parse_endpoint
from kafkalog_cli.render.serve_table import LiveTable
from kafkalog_core.command_lines import shell_word
from kafkalog_core.errors import KafkalogError, UnsupportedError
from kafkalog_core.format.names import DirectoryState
from kafkalog_core.serve.disks.served_disks import DiskOptions, ServedDisks
from kafkalog_core.serve.logs.partition_view import ViewOptions
from kafkalog_core.serve.metrics.network_counts import Metrics
from kafkalog_core.serve.server import ReadOnlyBroker
from kafkalog_core.storage.partition import partition_name
from kafkalog_core.structs import Struct
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from kafkalog_cli.options.listening import Listening
    from kafkalog_core.engine.selection import Selection
    from kafkalog_core.livebroker.disks.live_disks import LiveDisks
    from kafkalog_core.livebroker.live_server import LiveBroker
    from kafkalog_core.serve.logs.served_holes import ServedHole
    from kafkalog_core.serve.metrics.metrics_endpoint import MetricsEndpoint

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
_OPEN: Final = "every client that can reach this address can {}, because there is no authentication"
_BY_ACLS: Final = "do what ACLs allow User:ANONYMOUS"


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
    own=("--set",),
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
    "--table/--no-table",
    default=True,
    show_default=True,
    help="On a terminal, show a table of what clients do, below the lines on stderr. There is none with --log json.",
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
    table = LiveTable(wanted=given["table"] and given["log_form"] == "text")
    log = ServeLog(given["log_form"], table.write)
    slow = interpreted_warning()
    if slow is not None:
        log.note(slow)
    run = _Run(given, listening, log, Metrics(log), table, Signals(recovers=given["read_write"]))
    try:
        with run.signals:
            return _serve_live(paths, selection, run) if given["read_write"] else _serve_disks(paths, selection, run)
    except KafkalogError as error:
        if not log.is_json:
            raise
        log.event("serve.refused", str(error))
        return status_of(error)
    finally:
        log.close()


class _Run(Struct, frozen=True):
    """What a run of the command has: its options, where it reports to, and what ends it."""

    given: Mapping[str, Any]
    listening: Listening
    log: ServeLog
    metrics: Metrics
    table: LiveTable
    signals: Signals

    def new_member_id(self, client_id: str) -> str:
        """Return an id that is used once."""
        return f"{client_id}-{uuid.uuid4()}"


def _serve_disks(paths: tuple[str, ...], selection: Selection, run: _Run) -> int:
    """Serve disks, read-only."""
    given, log, metrics = run.given, run.log, run.metrics
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
            run.listening.broker_options(disks.log_dirs, log.note, log.unproved, given["commits"]),
            clock=time.monotonic,
            clock_ms=clock_ms,
            new_member_id=run.new_member_id,
            observer=metrics,
            decoded=metrics.request_decoded,
            traffic=metrics.traffic,
        )
        return _serve(stack, run, disks, broker)


def _serve_live(paths: tuple[str, ...], selection: Selection, run: _Run) -> int:
    """Be a live broker on one directory."""
    # A disk that is only read is served without the modules that write.
    from kafkalog_core.livebroker.disks.live_disks import LiveDisks  # noqa: PLC0415
    from kafkalog_core.livebroker.disks.live_settings import LiveSettings  # noqa: PLC0415
    from kafkalog_core.livebroker.live_server import LiveBroker  # noqa: PLC0415

    given, log, metrics = run.given, run.log, run.metrics
    if len(paths) != 1 or not selection.is_everything:
        raise click.UsageError("--read-write takes one log directory, and serves all of it")
    for name in ("on_damage", "at", "high_watermark", "set_aside", "commits", "node_id"):
        if click.get_current_context().get_parameter_source(name) is ParameterSource.COMMANDLINE:
            raise click.UsageError(f"--{name.replace('_', '-')} is for disks that are only read; omit --read-write")
    settings = LiveSettings.of(given["assignments"])
    with ExitStack() as stack:
        disks = stack.enter_context(
            closing(
                LiveDisks(
                    paths[0],
                    settings,
                    clock_ms=clock_ms,
                    new_id=lambda: uuid.uuid4().bytes,
                    failed=metrics.network_error,
                    notify=_Holes(log, metrics),
                )
            )
        )
        broker = LiveBroker(
            disks,
            run.listening.broker_options(paths, log.note, log.unproved, live_users=disks.users),
            clock=time.monotonic,
            clock_ms=clock_ms,
            new_member_id=run.new_member_id,
            observer=metrics,
            decoded=metrics.request_decoded,
            traffic=metrics.traffic,
        )
        return _serve(stack, run, disks, broker)


def _endpoint(address: HostPort, metrics: Metrics, broker: ReadOnlyBroker | LiveBroker) -> MetricsEndpoint:
    """Listen for scrapers. Raises AccessError, UnsupportedError without the library that writes their format."""
    try:
        from kafkalog_core.serve.metrics.metrics_endpoint import MetricsEndpoint  # noqa: PLC0415 - of the extra
        from kafkalog_core.serve.metrics.open_metrics import exposition  # noqa: PLC0415
    except ImportError as error:
        raise UnsupportedError(
            "--metrics needs the library prometheus-client, which is not installed: pip install '.[serve]'"
        ) from error
    return MetricsEndpoint(address.host, address.port, lambda: exposition(metrics, broker.status))


def _serve(stack: ExitStack, run: _Run, disks: ServedDisks | LiveDisks, broker: ReadOnlyBroker | LiveBroker) -> int:
    """Serve until a signal, or until the time is over; then close what `stack` holds, and report the end."""
    log, seconds, address = run.log, run.given["seconds"], run.given["metrics"]
    with stack:
        if address is not None:
            endpoint = stack.enter_context(_endpoint(address, run.metrics, broker))
            if not is_loopback(address.host):
                log.note("warning: everybody who can reach the address of --metrics can read them")
            log.metrics_started(HostPort(address.host, endpoint.port))
        stack.enter_context(broker)
        title = _introduce(run, disks, broker)
        stack.enter_context(run.table)
        figures = ServeWatch(broker, run.metrics, skips_damage=isinstance(disks, ServedDisks))
        run.table.start(lambda uptime: f"{title}, up {uptime}", figures)
        end_s = None if seconds is None else time.monotonic() + seconds
        while not run.signals.wait(_SWEEP_SECONDS):
            broker.sweep()
            if end_s is not None and time.monotonic() >= end_s:
                break
        requests, sent = broker.requests()
    log.stopped(requests, sent)
    return ExitStatus.CLEAN


def _introduce(run: _Run, disks: ServedDisks | LiveDisks, broker: ReadOnlyBroker | LiveBroker) -> str:
    """Print what is served and where to stdout, what the user should know to stderr; return a title."""
    log = run.log
    for note in (*disks.notes, *broker.notes):
        log.note(note)
    if run.listening.is_open and not run.listening.is_loopback:
        what = "read every topic"
        if not isinstance(disks, ServedDisks):
            what = "read and write every topic" if disks.settings.authorizer is None else _BY_ACLS
        log.note(f"warning: {_OPEN.format(what)}")
    address = HostPort(broker.addresses[0].host, broker.addresses[0].port)
    if run.listening.sasl_listen is not None:
        log.note(f"clients authenticate at {HostPort(broker.addresses[-1].host, broker.addresses[-1].port)}")
    partitions = sum(len(topic.copies) for topic in disks.topics.values())
    what = f"{count_of(len(disks.topics), 'topic')} with {count_of(partitions, 'partition')}"
    how = "read-only" if isinstance(disks, ServedDisks) else "read-write"
    line = f"serving {what} of cluster {disks.cluster_id} as broker {disks.node_id}, {how}, at {address}"
    click.echo(line)
    log.started(line, address)
    if isinstance(disks, ServedDisks) and sys.stderr.isatty():  # somebody reads it, and wants to read the disk
        for each in client_lines(address, disks.topics):
            click.echo(each, err=True)
    return f"kafkalog serve, {how}, broker {disks.node_id} at {address}"


def client_lines(address: HostPort, topics: Iterable[str]) -> list[str]:
    """Return the lines with the commands of clients: a topic, for each isolation level, and the offsets of groups."""
    topic = shell_word(next((name for name in sorted(topics) if not name.startswith("__")), "TOPIC"))
    read = f"  kcat -b {address} -C -t {topic} -o beginning -e -X isolation.level="
    return [
        "kafkalog: to read a topic, to read its committed records alone, and to see the offsets of groups:",
        f"{read}read_uncommitted",
        f"{read}read_committed",
        f"  kafka-consumer-groups.sh --bootstrap-server {address} --all-groups --describe",
    ]


class _Holes:
    """Reports each place that is skipped, and counts it."""

    def __init__(self, log: ServeLog, metrics: Metrics) -> None:
        self._log = log
        self._metrics = metrics

    def __call__(self, hole: ServedHole) -> None:
        name = partition_name(os.path.dirname(hole.path))
        self._metrics.traffic.hole_skipped(name.topic or "")
        self._log.hole(hole, name)
