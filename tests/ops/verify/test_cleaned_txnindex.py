"""Transaction indexes of compacted partitions: what is left of the log proves an entry, or the manual lists it."""

from __future__ import annotations

import tarfile
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.format.index import iter_txn_entries
from kafkalog_core.format.layout import TXN_INDEX_ENTRY
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tools.untraceable import UNTRACEABLE_FIELDS

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.findings import Finding

FIXTURE: Final = Path(__file__).parents[3] / "fixtures" / "modern" / "04-compaction-4.3.1.tar.gz"
FIELDS: Final = ("version", "producer_id", "first_offset", "last_offset", "last_stable_offset")
ENDS: Final = (2, 10, 18, 26, 34)
SEEN: Final = frozenset({"warning", "error"})


def findings(partition: Path) -> list[Finding]:
    request = VerifyRequest(targets=tuple(resolve([str(partition)])), now_ms=2**41, level="headers")
    return [finding for verdict in verify(request) for finding in verdict.findings if finding.severity in SEEN]


def field_at(position: int) -> str:
    at = position % TXN_INDEX_ENTRY.size
    return next(name for name, end in zip(FIELDS, ENDS, strict=True) if at < end)


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """The transaction indexes of compacted partitions that a broker of 4.3 left, after a clean and before one."""
    place = tmp_path_factory.mktemp("cleaned")
    with tarfile.open(FIXTURE) as archive:
        archive.extractall(place, filter="data")
    paths = sorted(path for path in place.rglob("*.txnindex") if path.stat().st_size and "cmp.txn" in path.parent.name)
    assert paths
    return paths


def changed(path: Path, data: bytes) -> list[Finding]:
    """What verify finds with another content of an index."""
    before = path.read_bytes()
    path.write_bytes(data)
    try:
        return findings(path.parent)
    finally:
        path.write_bytes(before)


def flips(data: bytes) -> Iterator[tuple[int, bytes]]:
    for position in range(len(data)):
        yield position, data[:position] + bytes([data[position] ^ 0xFF]) + data[position + 1 :]


@pytest.mark.slow
def test_every_flip_is_noticed_or_documented(cleaned: list[Path]) -> None:
    unnoticed: set[str] = set()
    for path in cleaned[:4]:
        assert not [one for one in findings(path.parent) if one.code.startswith("txnindex.")]
        data = path.read_bytes()
        for position, other in flips(data):
            if any(one.code.startswith("txnindex.") for one in changed(path, other)):
                continue
            unnoticed.add(field_at(position))
            entry = list(iter_txn_entries(other))[position // TXN_INDEX_ENTRY.size]
            _, _, first, last, stable = entry
            assert 0 <= first <= last
            assert 0 <= stable <= last + 1
    documented = {name for file, name in UNTRACEABLE_FIELDS if file == "txnindex of a compacted log"}
    assert unnoticed <= documented
    assert documented == {"first_offset", "last_stable_offset"}


def test_an_emptied_index_is_noticed_where_a_batch_of_a_transaction_is_left(cleaned: list[Path]) -> None:
    found = [[one.code for one in changed(path, b"") if one.code.startswith("txnindex.")] for path in cleaned]
    assert any(codes == ["txnindex.missing-entry"] or codes for codes in found)


def test_an_entry_of_another_marker_or_producer_is_an_error(cleaned: list[Path]) -> None:
    for path in cleaned[:6]:
        entry = path.read_bytes()[: TXN_INDEX_ENTRY.size]
        producer = entry[:2] + (77).to_bytes(8, "big") + entry[10:]
        last = int.from_bytes(entry[18:26], "big")
        marker = entry[:18] + (last + 1).to_bytes(8, "big") + entry[26:]
        for other, code in ((producer, "txnindex.wrong-entry"), (marker, "txnindex.unknown-entry")):
            found = [one for one in changed(path, other + path.read_bytes()[34:]) if one.code == code]
            assert [one.severity for one in found] == ["error"]
            assert found[0].position == 0
