"""Disks with transactions: those of real brokers in `fixtures/`, and logs that a test writes; rows about them."""

from __future__ import annotations

import gzip
import json
import shutil
import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC, TransactionValue, encode_transaction
from tests.support.build import COMMIT, Record, batch_v2, txn_marker

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

__all__ = [
    "REAL",
    "Case",
    "Written",
    "empty_log",
    "rows_of",
    "unpacked",
]

_FIXTURES: Final = Path(__file__).resolve().parents[3] / "fixtures"
REAL: Final = (
    "modern/03-transactions-4.3.1",
    "modern/03-transactions-3.9.1",
    "modern/08-internal-4.3.1",
    "modern/08-internal-3.9.1",
    "old/txn-2.8.2",
    "old/txn-0.11.0.3",
)
Row = dict[str, Any]


def rows_of(kind: str, *words: object, status: int = 0) -> list[Row]:
    """Rows of `kafkalog transactions`."""
    done = CliRunner().invoke(cli, ["transactions", "--output", "ndjson", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == status, (words, done.output)
    return [row for row in map(json.loads, done.stdout.splitlines()) if row["type"] == kind]


class Case:
    """A case of the corpus: its log directory, and what its live cluster and real consumers said."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.log_dir = next(path for path in sorted(place.glob("**/logdir")) if path.is_dir())

    def cluster_state(self) -> Row | None:
        """What the admin tools said last; None: nobody asked."""
        path = self.place / "cluster_state.json"
        found: Row | None = json.loads(path.read_text()) if path.exists() else None
        return found

    def stable_offsets(self) -> Iterator[tuple[str, int, int]]:
        """Partition, last stable offset, and number of records from there on, as consumers met them."""
        for path in sorted(self.place.glob("truth/*/read_committed.json")):
            said = json.loads(path.read_text())
            offsets = list(_offsets(path.with_name("records.jsonl.gz")))
            stable = said["last_stable_offset"]
            yield path.parent.name, stable, sum(offset >= stable for offset in offsets)

    def read(self) -> Iterator[tuple[str, list[int], list[int]]]:
        """Partition, and the offsets of all records and of those that read_committed consumers got (old cases)."""
        for path in sorted(self.log_dir.parent.glob("truth/*/records.read_committed.jsonl.gz")):
            yield path.parent.name, list(_offsets(path.with_name("records.jsonl.gz"))), list(_offsets(path))


def _offsets(path: Path) -> Iterator[int]:
    with gzip.open(path) as lines:
        yield from (json.loads(line)["offset"] for line in lines)


def unpacked(name: str, place: Path) -> Case:
    """Unpack a case of `fixtures/`, as its broker left it last."""
    with tarfile.open(_FIXTURES / f"{name}.tar.gz") as archive:
        members = [each for each in archive if "/compacted" not in each.name]
        archive.extractall(place, members, filter="data")
    return Case(place / name.partition("/")[2])


def empty_log(directory: Path) -> None:
    """Let a partition have lost its records: an empty log is left."""
    for path in [*directory.glob("*.log"), *directory.glob("*index"), *directory.glob("*.snapshot")]:
        path.unlink()
    (directory / f"{0:020}.log").touch()


class Written:
    """A log directory that a test writes, of a cluster with one partition of `__transaction_state`."""

    def __init__(self, place: Path, cluster: str = "one") -> None:
        self.path = place
        place.mkdir(parents=True)
        (place / "meta.properties").write_text(f"version=1\nnode.id=1\ncluster.id={cluster}\n")
        (place / "recovery-point-offset-checkpoint").write_text("0\n0\n")

    def states(self, *values: tuple[str, TransactionValue | None], number: int = 0, epoch: int = 0) -> Path:
        """Write the records of a partition of `__transaction_state`."""
        records = []
        for offset, (name, value) in enumerate(values):
            key, encoded = encode_transaction(name, value)
            records.append(batch(Record(offset=offset, key=key, value=encoded), leader_epoch=epoch))
        return self.log(f"{TRANSACTIONS_TOPIC}-{number}", records)

    def log(self, name: str, batches: Sequence[bytes]) -> Path:
        """Write the log of a partition."""
        directory = self.path / name
        directory.mkdir()
        (directory / f"{0:020}.log").write_bytes(b"".join(batches))
        return directory

    def copy(self, directory: Path) -> Path:
        """Copy a partition of another log directory."""
        return Path(shutil.copytree(directory, self.path / directory.name))


def batch(*records: Record, **fields: Any) -> bytes:
    """A batch of some records."""
    return batch_v2(records, **fields)


def transactional(offset: int, producer_id: int, count: int = 1, timestamp_ms: int = 1000, **fields: Any) -> bytes:
    """A batch of a transaction."""
    records = [Record(offset=offset + n, timestamp_ms=timestamp_ms + n, value=b"v") for n in range(count)]
    return batch_v2(
        records, producer_id=producer_id, producer_epoch=0, base_sequence=0, is_transactional=True, **fields
    )


def marker(offset: int, producer_id: int, kind: int = COMMIT) -> bytes:
    """A marker."""
    return txn_marker(kind, offset=offset, producer_id=producer_id)
