"""Chunks made by hand, and a `dump` that yields them in place of the one that reads files."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

from kafkalog_cli.commands import dump as dump_module
from kafkalog_cli.main import cli
from kafkalog_core.output import tables
from kafkalog_core.output.chunk import RowChunk

SEGMENT = "00000000000000000000.log"
PLACE = {"topic": "orders", "partition": 0, "segment": SEGMENT}


def batch(**columns):
    return PLACE | {
        "position": 0,
        "size_bytes": 100,
        "base_offset": 0,
        "last_offset": 2,
        "record_count": 3,
        "format": "v2",
        "codec": "none",
        "timestamp_type": "create",
        "base_timestamp_ms": 1_700_000_000_000,
        "max_timestamp_ms": 1_700_000_000_123,
        "leader_epoch": 4,
        "producer_id": -1,
        "producer_epoch": -1,
        "base_sequence": -1,
        "is_transactional": False,
        "is_control": False,
        "crc_stored": 1,
        "crc_computed": 1,
        "crc_ok": True,
        "resynced": False,
        **columns,
    }


def record(**columns):
    return PLACE | {
        "position": 0,
        "offset": 0,
        "timestamp_ms": 1_700_000_000_000,
        "timestamp_type": "create",
        "key": b"k",
        "value": b"v",
        "headers": [],
        "format": "v2",
        "codec": "none",
        "leader_epoch": 4,
        "producer_id": -1,
        "producer_epoch": -1,
        "sequence": -1,
        "is_transactional": False,
        "resynced": False,
        **columns,
    }


def damage(**columns):
    return PLACE | {
        "position": 100,
        "size_bytes": 40,
        "reason": "crc-mismatch",
        "detail": "The checksum differs.",
        "next_offset": 3,
        **columns,
    }


def finding(**columns):
    return {
        "code": "file.unknown",
        "severity": "warning",
        "file": "orders-0/notes.txt",
        "message": "No broker creates a file with this name here.",
        "broker_action": "Ignores it.",
        **columns,
    }


def summary(**columns):
    return {
        "files": 1,
        "files_total": 1,
        "partitions": 1,
        "partitions_total": 1,
        "bytes": 140,
        "bytes_total": 140,
        "unchanged_bytes": 0,
        "batches": 1,
        "unopened_batches": 0,
        "records": 3,
        "uncounted_batches": 0,
        "rows": 2,
        "damage_count": 0,
        "damage_bytes": 0,
        "severities": {},
        "codes": {},
        "interrupted": False,
        "exit_status": 0,
        **columns,
    }


class FakeReport:
    """What the command asks of a report."""

    rows = 0

    def __init__(self, row):
        self.row = row

    def summary_row(self):
        return self.row

    def note_written(self):
        """Nothing is read here."""

    @property
    def exit_status(self):
        return self.row["exit_status"]

    written_status = exit_status


class Dumping:
    """Runs `kafkalog dump` on chunks given by hand, and keeps the request that it made of the command line."""

    def __init__(self, monkeypatch, path):
        self.path = str(path)
        self.chunks = []
        self.summary = summary()
        self.request = None
        monkeypatch.setattr(dump_module, "Report", lambda: FakeReport(self.summary))
        monkeypatch.setattr(dump_module, "dump", self._dump)
        monkeypatch.setattr("kafkalog_core.ops.dump.follow.follow", self._follow)
        monkeypatch.setattr("kafkalog_cli.commands.running.kernels.COMPILED", True)

    def _dump(self, request, report, progress):
        del report, progress
        self.request = request
        yield from self.chunks

    def _follow(self, request, report, *, wait, is_over, targets):
        del report, is_over, targets
        self.request = request
        yield from self.chunks
        wait()

    def rows(self, table, *rows):
        self.chunks.append(RowChunk(table, rows))
        return self

    def batches(self, *rows):
        return self.rows(tables.BATCH, *rows)

    def records(self, *rows):
        return self.rows(tables.RECORD, *rows)

    def damaged(self, *rows):
        self.summary = summary(
            damage_count=len(rows),
            damage_bytes=40,
            severities={"error": len(rows)},
            codes={"crc-mismatch": len(rows)},
            exit_status=4,
        )
        return self.rows(tables.DAMAGE, *rows)

    def run(self, *arguments, columns=120):
        return CliRunner(env={"COLUMNS": str(columns)}).invoke(cli, ["dump", *arguments, self.path])


@pytest.fixture
def dumping(monkeypatch, tmp_path):
    directory = tmp_path / "orders-0"
    directory.mkdir()
    (directory / SEGMENT).write_bytes(b"")
    return Dumping(monkeypatch, directory)
