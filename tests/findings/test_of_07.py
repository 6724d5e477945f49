"""Kafka 0.7 had no replicas, indexes or checkpoints: no finding in one of its logs speaks of them."""

from __future__ import annotations

import json
import re
from itertools import product
from typing import TYPE_CHECKING

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.findings.logs import LOGS
from kafkalog_core.findings.logs_07 import in_07
from tests.support import build
from tests.support.for_each import for_each

if TYPE_CHECKING:
    from pathlib import Path

LATER = re.compile(
    r"replica|recovery point|leader epoch|checkpoint|high watermark|last stable|producer|transaction|offset index"
    r"|time index|partition\.metadata|meta\.properties|compact|controller|kafka-[a-z-]+\.sh",
    re.IGNORECASE,
)
MESSAGES = [build.message_v07(b"value %d" % number * 9) for number in range(6)]
LOG = b"".join(MESSAGES)


@for_each(LOGS)
def test_texts_of_every_code_in_a_log_are_those_of_0_7(code: str) -> None:
    kind = in_07(code, LOGS[code])
    text = f"{kind.broker_action} {kind.cure}"
    assert not LATER.search(text), text


def _flipped(position: int) -> bytes:
    return LOG[:position] + bytes([LOG[position] ^ 0xFF]) + LOG[position + 1 :]


DAMAGED = {
    "crc": _flipped(len(MESSAGES[0]) + 12),
    "size": _flipped(0),
    "magic": _flipped(len(MESSAGES[0]) + 4),
    "codec": _flipped(len(MESSAGES[0]) + 5),
    "torn": LOG[:-3],
    "zeros": LOG + bytes(40),
    "garbage": LOG + b"\xff" * 40,
    "empty": b"",
}


COMMANDS = (("verify",), ("truncate", "--at-damage", "--kafka", "0.7"), ("reindex", "--kafka", "0.7"))


def test_no_finding_on_a_disk_of_0_7_speaks_of_what_it_had_not(tmp_path: Path) -> None:
    offences = {}
    for name, is_last, is_clean in product(DAMAGED, (True, False), (True, False)):
        disk = tmp_path / f"{name}, is_last={is_last}, is_clean={is_clean}"
        partition = disk / "t-0"
        partition.mkdir(parents=True)
        (partition / f"{0:020d}.kafka").write_bytes(DAMAGED[name])
        if not is_last:
            (partition / f"{len(DAMAGED[name]):020d}.kafka").write_bytes(LOG)
        if is_clean:
            (disk / ".kafka_cleanshutdown").touch()
        for command in COMMANDS:
            if found := _later(command, disk):
                offences[f"{disk.name}: {command[0]}"] = found
    assert not offences, "\n".join(f"{name}: {found}" for name, found in offences.items())


def _later(command: tuple[str, ...], disk: Path) -> list[str]:
    """Return the texts of a command's findings that speak of what a later release brought."""
    done = CliRunner().invoke(cli, [*command, "--output", "ndjson", str(disk)])
    if done.exit_code not in {0, 3, 4}:
        return [f"exit status {done.exit_code}: {done.stderr}"]
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    texts = [f"{row['message']} {row['broker_action']} {row['cure']}" for row in rows if row.get("type") == "finding"]
    return [text for text in texts if LATER.search(text)]


def test_a_torn_tail_after_a_clean_stop_is_not_cut_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.kafka").write_bytes(LOG[:-3])

    def severities() -> list[str]:
        out = CliRunner().invoke(cli, ["verify", "--output", "ndjson", str(tmp_path)]).stdout
        return [row["severity"] for row in map(json.loads, out.splitlines()) if row.get("code") == "log.torn-tail"]

    assert severities() == ["info"]
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert severities() == ["error"]
