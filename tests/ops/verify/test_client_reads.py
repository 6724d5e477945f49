"""What is said of consumers: once a batch, by all that is known of it, or not at all."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.findings.client_reads import CONSUMERS, consumers
from tests.support import client_table
from tests.support.figures import run
from tests.support.wrong_batches import BEFORE, KINDS, Kind

if TYPE_CHECKING:
    from pathlib import Path

    from tests.support.figures import Row

SAYS = "Consumers with default settings"


def kind_of(title: str) -> Kind:
    return next(kind for kind in KINDS if kind.title == title)


def found(kind: Kind, tmp_path: Path, *options: str, of_file: bool = False) -> dict[str, Row]:
    client_table.lay(tmp_path / "t-0", kind)
    target = tmp_path / "t-0" / f"{0:020d}.log" if of_file else tmp_path / "t-0"
    return {row["code"]: row for row in run("verify", target, "--kafka", "4.3", *options).of("finding")}


def test_the_worst_of_two_findings_says_it(tmp_path: Path) -> None:
    """Bytes after an lz4 frame are ignored by Java alone, but records that they were part of are missed by all."""
    rows = found(kind_of("2 lz4 a second frame after the payload"), tmp_path)
    said = consumers(2, "lz4", ["batch.payload-trailing", "record.length"])
    assert said.count("stops there") == 3
    assert said in rows["record.length"]["broker_action"]
    assert SAYS not in rows["batch.payload-trailing"]["broker_action"]
    assert "Nothing needs to be done" not in rows["batch.payload-trailing"]["cure"]


@pytest.mark.parametrize("of_file", [False, True])
def test_it_is_said_of_a_single_file_too(of_file: bool, tmp_path: Path) -> None:
    rows = found(kind_of("2 zstd window of 256 MiB"), tmp_path, of_file=of_file)
    assert consumers(2, "zstd", ["batch.payload-window"]) in rows["batch.payload-window"]["broker_action"]


def test_nothing_is_said_where_records_were_not_read(tmp_path: Path) -> None:
    """The records may have other faults, with which a client does something else."""
    rows = found(kind_of("2 none last offset delta 0, records 0 0 0"), tmp_path, "--level", "checksums")
    assert SAYS not in rows["batch.header-contradiction"]["broker_action"]
    assert CONSUMERS not in rows["batch.header-contradiction"]["broker_action"]
    rows = found(kind_of("1 snappy checksum wrong"), tmp_path, "--level", "checksums")
    assert consumers(1, "snappy", ["batch.crc-mismatch"]) in rows["batch.crc-mismatch"]["broker_action"]


def test_nothing_is_said_of_a_batch_with_findings_that_are_only_counted(tmp_path: Path) -> None:
    """Of one code the first findings in a file are shown: what else is wrong with later batches is not known."""
    orders, outside = (
        kind_of(f"2 none record offset deltas {deltas}").make(0) for deltas in ("2 1 0", "0 2147483647 2")
    )
    log = b"".join(_at(batch, 3 * number) for number, batch in enumerate([orders] * 30 + [outside]))
    partition = tmp_path / "t-0"
    partition.mkdir()
    (partition / f"{0:020d}.log").write_bytes(log)
    rows = run("verify", partition, "--kafka", "4.3").of("finding")
    said = {row["position"] for row in rows if SAYS in (row["broker_action"] or "")}
    last_shown = max(row["position"] for row in rows if row["code"] == "record.offset-order")
    assert len(said) == 20
    assert max(said) == last_shown
    assert any(row["code"] == "record.offset-outside" and row["position"] > last_shown for row in rows)


def _at(batch: bytes, offset: int) -> bytes:
    """A batch at another base offset, which no checksum protects."""
    return offset.to_bytes(8, "big") + batch[8:]


def test_the_wrong_batch_is_where_the_table_has_it() -> None:
    kind = kind_of("2 none checksum wrong")
    assert kind.make(BEFORE) in kind.log()
