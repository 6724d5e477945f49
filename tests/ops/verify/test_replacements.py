"""Finished replacements next to what they replace: a start of a broker must not make of a whole log a damaged one."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

NOW_MS = 1_800_000_000_000
WORSE = "segment.swap-worse"


class Progress:
    """Nobody looks."""

    def expect(self, size_bytes: int) -> None:
        """As `verify` wants it."""

    def advance(self, size_bytes: int) -> None:
        """As `verify` wants it."""


def log(*offsets: int) -> bytes:
    return b"".join(
        build.batch_v2([build.Record(offset=offset, key=b"k", value=b"v", timestamp_ms=1000 + offset)])
        for offset in offsets
    )


def damaged(data: bytes) -> bytes:
    return data[:100] + bytes([data[100] ^ 1]) + data[101:]


def write(path: Path, state: str, **logs: bytes) -> None:
    """Logs by `at` and their base offset, each with its indexes."""
    for name, data in logs.items():
        base = int(name.removeprefix("at"))
        (path / f"{base:020d}.log{state}").write_bytes(data)
        for extension in ("index", "timeindex"):
            (path / f"{base:020d}.{extension}{state}").touch()


@pytest.fixture
def partition(tmp_path: Path) -> Path:
    """Three segments of ten offsets each, in a log directory that has compacted nothing."""
    path = tmp_path / "logs" / "t-0"
    path.mkdir(parents=True)
    write(path, "", at0=log(*range(10)), at10=log(*range(10, 20)), at20=log(*range(20, 30)))
    (path / "leader-epoch-checkpoint").write_bytes(build.epoch_checkpoint([(0, 0)]))
    (path.parent / "meta.properties").write_bytes(
        build.meta_properties({"version": "0", "broker.id": "1", "cluster.id": "JP8dLpwyRqt7lTsK7P_TbQ"})
    )
    compacted(path)
    return path


def compacted(partition: Path, *entries: tuple[str, int, int]) -> None:
    (partition.parent / "cleaner-offset-checkpoint").write_bytes(build.offset_checkpoint(list(entries)))


def all_findings(partition: Path) -> list[Finding]:
    targets = tuple(resolve([str(partition.parent)]))
    verdicts = verify(VerifyRequest(targets=targets, now_ms=NOW_MS, jobs=1), Progress(), None)
    return [one for verdict in verdicts for one in verdict.findings]


def find(partition: Path) -> list[Finding]:
    """Those about replacements, whose time indexes are empty here."""
    found = [one for one in all_findings(partition) if ".swap" in one.path]
    return [one for one in found if not one.code.startswith("timeindex.")]


def brief(findings: list[Finding]) -> list[tuple[str, str]]:
    return [(one.severity, one.code) for one in findings if one.severity != "info"]


@pytest.mark.parametrize(
    ("swap", "reason", "others"),
    [
        ({"at10": b""}, "it is empty, and what it replaces holds 10 records", []),
        (
            {"at10": damaged(log(*range(10, 20)))},
            "it is damaged at byte 72, and what it replaces is whole",
            ["batch.crc-mismatch"],
        ),
        (
            {"at10": log(*range(10, 20))[:-9]},
            "it is damaged at byte {last}, and what it replaces is whole",
            ["log.torn-tail"],
        ),
        ({"at0": bytes(200)}, "it is damaged at byte 0, and what it replaces is whole", ["log.zero-tail"]),
        (
            {"at0": log(*range(29), 1000)},
            "it reaches to offset 1000, the log only to 29; it replaces 3 segments",
            [],
        ),
        (
            {"at10": log(*range(10, 13))},
            "it ends with offset 12, what it replaces with 19, and the log was never compacted",
            [],
        ),
    ],
    ids=["empty", "damaged", "torn", "zeros", "beyond", "shorter"],
)
def test_a_replacement_that_is_worse(partition: Path, swap: dict[str, bytes], reason: str, others: list[str]) -> None:
    write(partition, ".swap", **swap)
    step = len(log(0))
    reason = reason.format(last=9 * step).replace("byte 72", f"byte {100 // step * step}")
    findings = find(partition)
    assert brief(findings) == [("error", code) for code in [WORSE, *others]]
    worse = next(one for one in findings if one.code == WORSE)
    assert worse.message == f"The replacement is worse than what it replaces: {reason}."
    assert {one.cure for one in findings} == {FINDING_TYPES[WORSE].cure}, "nothing else is advised beside it"


@pytest.mark.parametrize(
    "swap",
    [
        {"at10": log(*range(10, 20))},
        {"at0": log(*range(20))},
        {"at10": log(10), "at11": log(*range(11, 20))},
        {"at20": log(*range(20, 30))},
    ],
    ids=["one", "of two", "split", "active"],
)
def test_a_replacement_that_is_as_good(partition: Path, swap: dict[str, bytes]) -> None:
    write(partition, ".swap", **swap)
    assert WORSE not in [code for _, code in brief(find(partition))]


@pytest.mark.parametrize("data", [b"", log(10, 12), log(10)], ids=["empty", "thinned", "shorter"])
def test_compaction_leaves_less(partition: Path, data: bytes) -> None:
    compacted(partition, ("t", 0, 20))
    write(partition, ".swap", at10=data)
    assert brief(find(partition)) == ([] if data else [("warning", WORSE)])


def test_a_replacement_whose_originals_are_gone(partition: Path) -> None:
    write(partition, ".swap", at10=damaged(log(*range(10, 20))))
    for name in ("log", "index", "timeindex"):
        (partition / f"{10:020d}.{name}").unlink()
    findings = find(partition)
    assert brief(findings) == [("error", "batch.crc-mismatch"), ("warning", "segment.swap-alone")]
    assert findings[0].cure == FINDING_TYPES["batch.crc-mismatch"].cure


def test_a_replacement_that_a_broker_removes(partition: Path) -> None:
    write(partition, ".swap", at10=b"")
    write(partition, ".cleaned", at0=b"")
    assert brief(find(partition)) == []


def test_a_replacement_of_what_is_damaged_too(partition: Path) -> None:
    write(partition, "", at10=damaged(log(*range(10, 20))))
    write(partition, ".swap", at10=b"")
    assert WORSE not in [code for _, code in brief(find(partition))]


def test_the_start_of_a_log_that_a_replacement_holds(partition: Path) -> None:
    """The originals are gone and the replacement waits: nothing of the log is gone."""
    for file in [*partition.glob(f"{0:020d}.*"), *partition.glob(f"{10:020d}.*")]:
        file.unlink()
    assert "epochs.before-start" in [one.code for one in all_findings(partition)]
    write(partition, ".swap", at0=log(*range(20)))
    assert "epochs.before-start" not in [one.code for one in all_findings(partition)]


def test_a_snapshot_without_an_offset_in_its_name_is_told_once(partition: Path) -> None:
    (partition / "abc.snapshot").write_bytes(b"none")
    assert [one.code for one in all_findings(partition) if "abc" in one.path] == ["segment.bad-name"]


@pytest.mark.parametrize("end", [build.ABORT, build.COMMIT], ids=["abort", "commit"])
@pytest.mark.parametrize("has", ["", "swap", "live", "marker"])
def test_a_replacement_without_its_transaction_index(partition: Path, end: int, has: str) -> None:
    """4.3.1 then serves aborted records to read_committed consumers; 2.8.2 rebuilds the index.

    has: what else there is: the transaction index of the replacement, or of the original; or of the transaction only
        the marker is left, so that a consumer has no use for the index.
    """
    record = build.Record(offset=0, key=b"k", value=b"v", timestamp_ms=1000)
    data = build.batch_v2([record], producer_id=7, producer_epoch=0, base_sequence=0, is_transactional=True)
    marker = build.txn_marker(end, offset=1, producer_id=7)
    write(partition, ".swap", at0=(b"" if has == "marker" else data) + marker)
    if has in {"swap", "live"}:
        (partition / f"{0:020d}.txnindex{'.swap' if has == 'swap' else ''}").touch()
    compacted(partition, ("t", 0, 10))
    found = [each for each in all_findings(partition) if each.code == "segment.swap-txnindex-missing"]
    assert [each.offset for each in found] == ([1] if not has and end == build.ABORT else [])
