"""Kafka 0.7 had no replicas, indexes or checkpoints: no finding in one of its logs speaks of them."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.findings.logs import LOGS, in_07
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

LATER = re.compile(
    r"replica|recovery point|leader epoch|checkpoint|high watermark|last stable|producer|transaction|offset index"
    r"|time index|partition\.metadata|meta\.properties|compact|controller|kafka-[a-z-]+\.sh",
    re.IGNORECASE,
)
MESSAGES = [build.message_v07(b"value %d" % number * 9) for number in range(6)]
LOG = b"".join(MESSAGES)


@pytest.mark.parametrize("code", LOGS)
def test_texts_of_every_code_in_a_log_are_those_of_0_7(code: str) -> None:
    kind = in_07(code, LOGS[code])
    assert not LATER.search(f"{kind.broker_action} {kind.cure}")


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


@pytest.mark.parametrize("is_clean", [True, False])
@pytest.mark.parametrize("is_last", [True, False])
@pytest.mark.parametrize("name", DAMAGED)
def test_no_finding_on_a_disk_of_0_7_speaks_of_what_it_had_not(
    tmp_path: Path, name: str, is_last: bool, is_clean: bool
) -> None:
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.kafka").write_bytes(DAMAGED[name])
    if not is_last:
        (partition / f"{len(DAMAGED[name]):020d}.kafka").write_bytes(LOG)
    if is_clean:
        (tmp_path / ".kafka_cleanshutdown").touch()
    for command in (("verify",), ("truncate", "--at-damage", "--kafka", "0.7"), ("reindex", "--kafka", "0.7")):
        done = CliRunner().invoke(cli, [*command, "--output", "ndjson", str(tmp_path)])
        assert done.exit_code in {0, 3, 4}, done.stderr
        rows = [json.loads(line) for line in done.stdout.splitlines()]
        texts = [
            f"{row['message']} {row['broker_action']} {row['cure']}" for row in rows if row.get("type") == "finding"
        ]
        assert not [text for text in texts if LATER.search(text)]


def test_a_torn_tail_after_a_clean_stop_is_not_cut_by_the_next_start(tmp_path: Path) -> None:
    (tmp_path / "t-0").mkdir()
    (tmp_path / "t-0" / f"{0:020d}.kafka").write_bytes(LOG[:-3])

    def severities() -> list[str]:
        out = CliRunner().invoke(cli, ["verify", "--output", "ndjson", str(tmp_path)]).stdout
        return [row["severity"] for row in map(json.loads, out.splitlines()) if row.get("code") == "log.torn-tail"]

    assert severities() == ["info"]
    (tmp_path / ".kafka_cleanshutdown").touch()
    assert severities() == ["error"]
