"""What `impact` says of a start, next to what a real consumer read after that start of a real broker.

Each fault was laid on the disk of a broker that was stopped or killed; then it started, and a consumer read the whole
log. So it is known where a group goes on that has committed any offset: groups of ours at many offsets are added.
"""

from __future__ import annotations

import gzip
import json
import shutil
from fnmatch import fnmatch
from typing import TYPE_CHECKING, Any, Final

import pytest

from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.rules.setting_requests import SettingsRequest
from kafkalog_core.ops.impact.impact import ImpactRequest, find_impacts
from tests.support.corpus import archives, faults
from tests.support.group_logs import commit_record, write_commits

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.ops.impact.impact import Impacts

pytestmark = pytest.mark.corpus

_CASE: Final = "modern/07-faults-4.3.1"
_OFFSETS: Final = (0, 9, 60, 94, 140, 200, 240, 300, 310, 317, 320, 330, 335, 340)
_END: Final = 335
_SETTINGS: Final = SettingsRequest(assignments=("index.interval.bytes=512", "segment.index.bytes=10240"))
_DIFFERENT: Final = {
    "clean/index.random_bytes.below": "the broker trusts a wrong index, and skips the rest of a segment",
    "*/file.unpadded_name": "the broker splits the log in two, which is not simulated",
    "*/partition_metadata.*": "the broker moves it aside by its metadata log, which is not in these directories",
    "clean/log.tail.garbage": "the consumer met an error at the end of the log, with nonsense as its offset",
}
"""Faults of which the impact is another one, and why."""
_NO_START: Final = {
    "*/dir.future_suffix": "two directories of one partition",
    "*/dir.lock_held": "another process has the lock",
    "*/high_watermark.*": "shown in doubt: the file is not valid",
    "*/log_start.*": "shown in doubt: the file is not valid",
    "*/recovery_point.*": "shown in doubt: the file is not valid",
    "*/meta_properties.*": "shown in doubt, or other nodes and clusters, which the directory does not know",
    "*/partition_metadata.*": "verify reports it",
    "*/txnindex.random.below": "of a topic that no group reads",
}
"""Faults with which the broker does not start, where the impact on a partition does not say so."""


def _faults() -> list[faults.Fault]:
    texts = archives.contents(archives.source()).texts
    names = sorted(name for name in texts if name.startswith(f"{_CASE}/") and name.endswith(f"/{faults.SHEET}"))
    return [faults.Fault.parse(name.removesuffix(f"/{faults.SHEET}"), texts[name]) for name in names]


def _name(fault: faults.Fault) -> str:
    return fault.path.removeprefix(f"{_CASE}/")


def _is_listed(fault: faults.Fault, listed: dict[str, str]) -> bool:
    return any(fnmatch(_name(fault), pattern) for pattern in listed)


def _impacts(corpus: Path, fault: faults.Fault, tmp_path: Path) -> Impacts:
    directory = tmp_path / "disk"
    faults.build(corpus, fault, faults.BEFORE, directory)
    commits = [commit_record(f"at-{offset}", "orders", 0, offset) for offset in _OFFSETS]
    write_commits(directory / "__consumer_offsets-1", commits)
    return find_impacts(ImpactRequest(targets=tuple(resolve([str(directory)])), kafka=_SETTINGS))


def _read_offsets(corpus: Path, fault: faults.Fault, reading: dict[str, Any]) -> list[int]:
    """What the consumer read of the log."""
    if reading["records"] == "as in base":
        return list(range(_END))
    found = next((corpus / fault.path).glob(f"truth/orders-0/{reading['records']}"))
    return [json.loads(line)["offset"] for line in gzip.open(found)]


@pytest.mark.parametrize("fault", _faults(), ids=_name)
def test_groups_go_on_where_a_real_consumer_did(corpus: Path, tmp_path: Path, fault: faults.Fault) -> None:
    found = _impacts(corpus, fault, tmp_path)
    rows = {each.commit.group: each.row() for each in found.impacts}
    reading = fault.readings.get("orders")
    if reading is None or reading["high"] is None:
        is_told = {row["effect"] for row in rows.values()} == {"unknown"}
        assert is_told or _is_listed(fault, _NO_START), found.doubts
        return
    if _is_listed(fault, _DIFFERENT):
        return
    offsets = _read_offsets(corpus, fault, reading)
    for offset in _OFFSETS:
        _check(rows[f"at-{offset}"], offset, offsets, reading)


def _check(row: dict[str, Any], offset: int, offsets: list[int], reading: dict[str, Any]) -> None:
    low, high, error = reading["low"], reading["high"], reading["error"]
    if row["path"] is None:  # the broker made the log that is missing
        assert (high, row["effect"]) == (0, "unknown")
        return
    assert (row["log_start_offset"], row["log_end_offset"]) == (low, high), row
    assert (row["effect"] == "reset") == (not low <= offset <= high), row
    if error is not None:
        stop = error.get("offset")
        assert stop is None or row["damage_offset"] == stop or stop < offset or row["effect"] == "reset", row
        return
    if row["damage_offset"] is not None:  # which records are read around it is not said
        return
    if row["effect"] == "reset":
        assert row["earliest_repeated"] == sum(each < offset for each in offsets), row
        assert row["latest_skipped"] == row["unread_records"], row
    else:
        assert row["remaining_records"] == sum(each >= offset for each in offsets), row


def test_a_read_committed_group_reads_what_a_real_consumer_did(corpus: Path, tmp_path: Path) -> None:
    """Of a log with committed, aborted and open transactions."""
    disk = tmp_path / "disk"
    shutil.copytree(corpus / _CASE / "base-unclean", disk)
    write_commits(disk / "__consumer_offsets-1", [commit_record(f"at-{each}", "payments", 0, each) for each in (0, 60)])
    targets = tuple(resolve([str(disk)]))
    found = find_impacts(ImpactRequest(targets=targets, kafka=_SETTINGS, isolation="read_committed"))
    rows = {each.commit.group: each.row() for each in found.impacts}
    truth = json.loads((corpus / _CASE / "truth" / "payments-0" / "read_committed.json").read_text())
    offsets = truth["read_committed_offsets"]
    for offset in (0, 60):
        assert rows[f"at-{offset}"]["remaining_records"] == sum(each >= offset for each in offsets)


_AFTERMATH: Final = "modern/07c-aftermath-4.3.1"


def _runs() -> list[str]:
    files = archives.contents(archives.source()).files
    return sorted({name.split("/")[2] for name in files if name.startswith(f"{_AFTERMATH}/") and "/before/" in name})


@pytest.mark.parametrize("run", _runs())
@pytest.mark.parametrize(
    ("state", "moment"), [("before", "after append"), ("after", "after kill -9 and recovery")], ids=["fault", "crash"]
)
def test_what_consumers_met_after_two_starts(corpus: Path, tmp_path: Path, run: str, state: str, moment: str) -> None:
    """First the fault and a start after a clean stop, at which 5 records were written; then a crash and a start."""
    case = json.loads((corpus / _AFTERMATH / "case.json").read_text())["runs"][run]
    disk = tmp_path / "disk"
    shutil.copytree(corpus / _CASE / "base-clean", disk)
    shutil.rmtree(disk / "orders-0")
    shutil.copytree(corpus / _AFTERMATH / run / state / "orders-0", disk / "orders-0")
    if state == "before":
        (disk / ".kafka_cleanshutdown").write_bytes(b"")
    else:
        (disk / ".kafka_cleanshutdown").unlink(missing_ok=True)
    write_commits(disk / "__consumer_offsets-1", [commit_record(f"at-{each}", "orders", 0, each) for each in _OFFSETS])
    found = find_impacts(ImpactRequest(targets=tuple(resolve([str(disk)])), kafka=_SETTINGS))
    rows = {each.commit.group: each.row() for each in found.impacts}
    reading = case["reads"][moment]
    end = case["send"]["first"] if state == "before" else reading["high"]
    for offset in _OFFSETS:
        row = rows[f"at-{offset}"]
        assert row["log_end_offset"] == end
        assert (row["effect"] == "reset") == (offset > end)
        if offset > end:  # new records get these offsets again, as the consumer met them after the append
            assert row["reused_offsets"] == offset - end
            assert row["latest_offset"] == end
        elif state == "after" and row["damage_offset"] is None:
            assert row["remaining_records"] == reading["n"] - offset


def test_every_line_is_of_a_fault() -> None:
    names = [_name(fault) for fault in _faults()]
    stale = [line for line in (*_DIFFERENT, *_NO_START) if not any(fnmatch(name, line) for name in names)]
    assert not stale or not archives.is_whole(), stale
