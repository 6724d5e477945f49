"""Cures that delete the mark of a clean stop, next to what a start without it would cut in the same log directory."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.findings import FINDING_TYPES
from kafkalog_core.findings.broker_actions import AFTER_EITHER, START_ACTIONS
from kafkalog_core.findings.entries import ENTRY_DAMAGE
from kafkalog_core.findings.kinds import CLEAN_MARK, MARK_OF_ALL
from kafkalog_core.findings.logs import LOG_DAMAGE
from kafkalog_core.ops.verify.engine import verify
from kafkalog_core.ops.verify.request import VerifyRequest
from tests.ops.verify.injected_files import build as build_log_dir
from tests.support import build

if TYPE_CHECKING:
    from pathlib import Path

    from kafkalog_core.findings import Finding

NOW_MS = 1_800_000_000_000
SAFE = "would truncate nothing else"
UNSAFE = f"do not delete {CLEAN_MARK}"


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """A clean log directory of the partitions orders-0 and other-0, of some segments each."""
    build_log_dir(tmp_path, "plain", Random(3))
    return tmp_path


def logs(home: Path, partition: str) -> list[Path]:
    return sorted((home / partition).glob("*.log"))


def tear(home: Path, partition: str = "orders-0") -> None:
    """Stray bytes at the end of a log, which recovery would cut off without loss."""
    with logs(home, partition)[-1].open("ab") as file:
        file.write(bytes(3))


def flip(path: Path, position: int = 90) -> None:
    data = bytearray(path.read_bytes())
    data[position] ^= 1
    path.write_bytes(data)


def verdicts_of(*paths: Path, selection: Selection | None = None, **options):
    targets = resolve([str(path) for path in paths], selection)
    return verify(VerifyRequest(targets=tuple(targets), now_ms=NOW_MS, **options))


def found(*paths: Path, **options) -> dict[str, Finding]:
    """Findings by code."""
    return {finding.code: finding for verdict in verdicts_of(*paths, **options) for finding in verdict.findings}


def torn_cure(*paths: Path, **options) -> str:
    return found(*paths, **options)["log.torn-tail"].cure or ""


@pytest.mark.parametrize("jobs", [1, 2])
def test_nothing_else_would_be_cut(home: Path, jobs: int) -> None:
    tear(home)
    cure = torn_cure(home, jobs=jobs)
    assert f"delete {CLEAN_MARK}" in cure
    assert SAFE in cure
    assert MARK_OF_ALL not in cure


@pytest.mark.parametrize("damaged", ["orders-0", "other-0"])
def test_damage_in_any_partition_forbids_it(home: Path, damaged: str) -> None:
    """Whether it comes before or behind the one that recovery would repair."""
    tear(home, "other-0" if damaged == "orders-0" else "orders-0")
    path = logs(home, damaged)[-1]
    flip(path)
    cure = torn_cure(home)
    assert cure.startswith("Start no broker")
    assert UNSAFE in cure
    assert f"in 1 of 2 partitions, the first {damaged} at byte 0 of {path.name}." in cure
    assert "kafkalog recover" in cure


def test_what_lies_below_the_recovery_point_is_not_recovered(home: Path) -> None:
    tear(home)
    flip(logs(home, "other-0")[0])
    assert SAFE in torn_cure(home)


def test_without_a_recovery_point_all_segments_are_recovered(home: Path) -> None:
    tear(home)
    flip(logs(home, "other-0")[0])
    entries = [("orders", 0, 5)]
    (home / "recovery-point-offset-checkpoint").write_bytes(build.offset_checkpoint(entries))
    findings = found(home)
    for code in ("log.torn-tail", "recovery-point.not-at-end"):
        assert "1 of 2 partitions, the first other-0" in (findings[code].cure or ""), code


def test_damage_of_the_same_partition_counts_too(home: Path) -> None:
    flip(logs(home, "orders-0")[-1])
    (home / "recovery-point-offset-checkpoint").write_bytes(
        build.offset_checkpoint([("orders", 0, 5), ("other", 0, 5)])
    )
    assert UNSAFE in (found(home)["recovery-point.not-at-end"].cure or "")


def test_a_snapshot_that_should_go(home: Path) -> None:
    """The state of producers comes from recovery too, where no other snapshot is left."""
    path = next(path for path in sorted((home / "orders-0").glob("*.snapshot")))
    path.write_bytes(build.snapshot([build.Producer(producer_id=1, last_offset=10**6)]))
    assert SAFE in (found(home)["snapshot.later-producer"].cure or "")
    flip(logs(home, "other-0")[-1])
    assert UNSAFE in (found(home)["snapshot.later-producer"].cure or "")


@pytest.mark.parametrize("how", ["alone", "selected", "headers", "unreadable"])
def test_what_was_not_looked_at_is_not_promised(home: Path, how: str) -> None:
    tear(home)
    if how == "alone":
        cure = torn_cure(home / "orders-0")
    elif how == "selected":
        cure = torn_cure(home, selection=Selection(topics=("orders",)))
    elif how == "headers":
        cure = torn_cure(home, level="headers")
    else:
        small = logs(home, "other-0")[-1]
        cure = torn_cure(home, max_batch_bytes=small.stat().st_size // 50)
    assert MARK_OF_ALL in cure
    assert SAFE not in cure


def test_of_some_partitions_it_is_known_at_least(home: Path) -> None:
    tear(home)
    flip(logs(home, "orders-0")[-1])
    cure = torn_cure(home, selection=Selection(topics=("orders",)))
    assert "in at least 1 partition, the first orders-0 at byte 0" in cure


def test_other_verdicts_do_not_wait(home: Path) -> None:
    tear(home)
    paths = [verdict.path.rpartition("/")[2] for verdict in verdicts_of(home)]
    assert paths == ["other-0", "orders-0", home.name]


def test_what_waits_is_not_lost_where_the_work_is_stopped(home: Path) -> None:
    """Somebody does so in the partition behind the one that waits."""
    tear(home)

    class StoppedError(Exception):
        pass

    class Stopping:
        left = sum(path.stat().st_size for path in logs(home, "orders-0"))

        def expect(self, size_bytes: int) -> None:
            del size_bytes

        def advance(self, size_bytes: int) -> None:
            self.left -= size_bytes
            if self.left < 0:
                raise StoppedError

    request = VerifyRequest(targets=tuple(resolve([str(home)])), now_ms=NOW_MS)
    verdicts = verify(request, Stopping())
    (finding,) = (finding for finding in next(verdicts).findings if finding.code == "log.torn-tail")
    assert MARK_OF_ALL in (finding.cure or "")
    with pytest.raises(StoppedError):
        next(verdicts)


def test_after_a_crash_there_is_no_mark_to_delete(home: Path) -> None:
    tear(home)
    (home / CLEAN_MARK).unlink()
    assert CLEAN_MARK not in torn_cure(home)


def test_every_text_that_deletes_the_mark_says_whose_it_is() -> None:
    cures = [kind.cure for kind in (*FINDING_TYPES.values(), *LOG_DAMAGE.values(), *ENTRY_DAMAGE.values())]
    assert all(MARK_OF_ALL in cure for cure in cures if cure is not None and CLEAN_MARK in cure)
    assert any(CLEAN_MARK in (cure or "") for cure in cures)


def test_the_cure_names_the_command_that_comes_next_before_the_mark() -> None:
    """A cure does not send the reader to delete a file by hand before the command that repairs it."""
    cures = {each.cure for each in (*START_ACTIONS.values(), *AFTER_EITHER.values()) if each.cure is not None}
    both = [cure for cure in cures if CLEAN_MARK in cure and "kafkalog recover" in cure]
    assert len(both) == 2
    assert all(cure.index("kafkalog recover") < cure.index("elete") for cure in both)


def test_a_torn_end_after_a_clean_stop_is_cut_by_a_command(home: Path) -> None:
    tear(home)
    torn = found(home)["log.torn-tail"]
    assert torn.next_command == f"kafkalog recover {home}"
    assert (torn.cure or "").startswith("Stop the broker. Run kafkalog recover: ")
    assert f" Or delete {CLEAN_MARK}: " in (torn.cure or "")
