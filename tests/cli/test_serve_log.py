"""Events of `kafkalog serve` as JSON and as text: each is declared, and each is documented."""

from __future__ import annotations

import json
import re
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_cli.commands.serve import client_lines
from kafkalog_cli.commands.serve_log import ServeLog
from kafkalog_cli.options.listening import HostPort
from kafkalog_core.output.events import EVENT, EVENTS
from kafkalog_core.serve.logs.served_holes import ServedHole
from kafkalog_core.serve.network.answers import CloseReason, ConnectionFacts
from kafkalog_core.storage.partition import partition_name

if TYPE_CHECKING:
    from kafkalog_core.output.schema import Kind

pytestmark = pytest.mark.live

ROOT = Path(__file__).parents[2]
CLIENT = ConnectionFacts(1, "127.0.0.1", 5, "SASL_SSL", 0)
HOLE = ServedHole(
    path="/disk/or\udcffders-3/00000000000000000000.log",
    position=10,
    size_bytes=5,
    reason="crc-mismatch",
    detail="a\nb",
    first_offset=7,
)
TYPES: dict[Kind, type] = {"string": str, "int32": int, "int64": int}


def report_all(log: ServeLog) -> None:
    log.note("the directory was empty")
    log.note("warning: everybody can read")
    log.started("serving", HostPort("::1", 9092))
    log.metrics_started(HostPort("::1", 9308))
    log.hole(HOLE, partition_name("/disk/or\udcffders-3"))
    log.unproved(CLIENT, "no such user")
    log.connection_opened(CLIENT)
    log.connection_refused("127.0.0.1", "SASL_SSL", "1 connections are open")
    log.request_handled(CLIENT, 1, 1, 1.0)
    log.bytes_sent(CLIENT, 1)
    for reason in (CloseReason.PEER, CloseReason.IDLE, CloseReason.SHUTDOWN):
        log.connection_closed(CLIENT, reason, "", None)
    log.connection_closed(CLIENT, CloseReason.ERROR, "", ValueError("x"))
    log.connection_closed(CLIENT, CloseReason.FRAME, "length 5", None)
    log.network_error("compaction", OSError("no space"))
    log.event("serve.refused", "the directory is locked")
    log.event("serve.dropped", "5 lines left out", lines=5)
    log.stopped(3, 2048)
    log.close()


def test_every_event_is_one_line_of_json() -> None:
    lines: list[str] = []
    report_all(ServeLog("json", lines.append))
    rows: list[dict[str, Any]] = [json.loads(line) for line in lines]
    assert all(line.isascii() and "\n" not in line for line in lines)
    assert {row["code"] for row in rows} == EVENTS.keys()
    base = {"type", "time_ms", "level", "code", "message"}
    for row in rows:
        declared = EVENTS[row["code"]]
        assert tuple(row) == EVENT.names
        assert (row["type"], row["level"]) == ("event", declared.level)
        assert {name for name, value in row.items() if value is not None} <= base | {*declared.facts}
        for column in EVENT.columns:
            assert row[column.name] is None or type(row[column.name]) is TYPES[column.kind]
    met = {name for row in rows for name, value in row.items() if value is not None}
    assert met == {*EVENT.names}
    (hole,) = [row for row in rows if row["code"] == "hole.skipped"]
    assert (hole["topic"], hole["partition"], hole["path"]) == ("or\udcffders", 3, HOLE.path)
    assert [row["reason"] for row in rows if row["code"] == "connection.closed"] == ["error", "frame"]


def test_as_text_each_is_one_safe_line() -> None:
    lines: list[str] = []
    report_all(ServeLog("text", lines.append))
    assert all(line.startswith("kafkalog: ") and line.isprintable() for line in lines)
    assert "kafkalog: stopped after 3 requests and 2.0 KiB sent" in lines
    assert "kafkalog: closed the connection of 127.0.0.1:5: an error (ValueError: x)" in lines
    assert len(lines) == len(EVENTS) - 1 + 1, "serve.started is on stdout, and one event is reported twice"


def test_every_event_is_documented() -> None:
    rows = re.findall(
        r"^\| `([a-z.]+)` \| (\w+) \| (.+?) \| (.*?) ?\|$", (ROOT / "docs/serve.md").read_text(), re.MULTILINE
    )
    found = {code: (level, meaning, tuple(re.findall("`(.+?)`", facts))) for code, level, meaning, facts in rows}
    assert found == {code: tuple(declared) for code, declared in EVENTS.items()}


def test_a_run_writes_nothing_but_json(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "kafkalog_cli", "serve", "--log", "json", "--for", "0.1", "--listen"]
    ran = subprocess.run(
        [*command, "127.0.0.1:0", "--metrics", "127.0.0.1:0", "--read-write", str(tmp_path)],
        cwd=ROOT, capture_output=True, text=True, check=True,
    )  # fmt: skip
    events = [json.loads(line) for line in ran.stderr.splitlines() if "no compiled kernels" not in line]
    assert [event["code"] for event in events] == ["metrics.started", "serve.note", "serve.started", "serve.stopped"]
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        ran = subprocess.run(
            [*command, f"127.0.0.1:{port}", "fixtures/demo"], cwd=ROOT, capture_output=True, text=True, check=False
        )
    assert ran.returncode == 3
    (line,) = (line for line in ran.stderr.splitlines() if "no compiled kernels" not in line)
    assert json.loads(line)["code"] == "serve.refused"
    assert str(port) in json.loads(line)["message"]


def test_what_a_client_types_is_ready_to_paste() -> None:
    """A topic of the disk that is not Kafka's own, for each isolation level, and the groups."""
    lines = client_lines(HostPort("::1", 9093), ["orders", "__consumer_offsets", "a b"])
    assert [line.split()[0] for line in lines] == ["kafkalog:", "kcat", "kcat", "kafka-consumer-groups.sh"]
    assert shlex.split(lines[1])[1:] == [
        "-b", "[::1]:9093", "-C", "-t", "a b", "-o", "beginning", "-e", "-X", "isolation.level=read_uncommitted"
    ]  # fmt: skip
    assert "-t TOPIC " in client_lines(HostPort("h", 1), ["__transaction_state"])[2]
