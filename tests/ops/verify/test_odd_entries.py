"""Directories in the place of files: one finding an entry, and the simulated start agrees with it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pytest

from tests.support.build import Record, batch_v2, meta_properties
from tests.support.figures import run
from tests.support.truncating import write_log

if TYPE_CHECKING:
    from pathlib import Path

MARK: Final = ".kafka_cleanshutdown"


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A KRaft log directory with one partition, after a clean shutdown."""
    (tmp_path / "meta.properties").write_bytes(meta_properties({"version": "1", "node.id": "1", "cluster.id": "c"}))
    (tmp_path / MARK).touch()
    write_log(tmp_path / "t-0", {0: [(0, 4)]})
    (tmp_path / "t-0" / "partition.metadata").write_text("version: 0\ntopic_id: AAAAAAAAAAcAAAAAAAAABw\n")
    return tmp_path


def make_directory(path: Path) -> None:
    path.unlink(missing_ok=True)
    path.mkdir()


def told(log_dir: Path, path: Path) -> dict[str, str]:
    rows = run("verify", log_dir, "--kafka", "4.3").of("finding")
    return {row["code"]: row["broker_action"] for row in rows if row["file"] == str(path)}


def planned(log_dir: Path) -> list[str]:
    return [row["code"] for row in run("truncate", log_dir, "--as-broker", "--kafka", "4.3").of("finding")]


@pytest.mark.parametrize(
    ("name", "code", "plan"),
    [
        ("partition.metadata", "file.not-a-file", "truncate.broker-offline"),
        ("leader-epoch-checkpoint", "file.not-a-file", "truncate.broker-offline"),
        (f"{0:020d}.index", "index.not-a-file", "truncate.broker-offline"),
        (f"{4:020d}.snapshot", "file.not-a-file", "truncate.not-foreseen"),
    ],
)
def test_in_a_partition(log_dir: Path, name: str, code: str, plan: str) -> None:
    make_directory(log_dir / "t-0" / name)
    assert list(told(log_dir, log_dir / "t-0" / name)) == [code]
    assert planned(log_dir) == [plan]


def test_a_broken_link_in_a_partition_is_no_such_entry(log_dir: Path) -> None:
    path = log_dir / "t-0" / "leader-epoch-checkpoint"
    path.unlink(missing_ok=True)
    path.symlink_to("missing")
    assert "file.broken-link" in told(log_dir, path)


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "replication-offset-checkpoint", ".lock"])
def test_at_the_top(log_dir: Path, name: str) -> None:
    make_directory(log_dir / name)
    assert told(log_dir, log_dir / name) == {"dir.not-a-partition": "Does not start."}


def test_meta_properties(log_dir: Path) -> None:
    make_directory(log_dir / "meta.properties")
    assert told(log_dir, log_dir / "meta.properties") == {"file.not-readable": "Takes the whole log directory offline."}


@pytest.mark.parametrize("is_empty", [True, False])
def test_the_clean_shutdown_file(log_dir: Path, is_empty: bool) -> None:
    make_directory(log_dir / MARK)
    if not is_empty:
        (log_dir / MARK / "x").touch()
    said = told(log_dir, log_dir / MARK)
    assert list(said) == ["clean-shutdown.directory" if is_empty else "clean-shutdown.not-empty"]
    codes = {row["code"] for row in run("verify", log_dir).of("finding")}
    assert not codes & {"dir.unclean", "partition.at-risk"}


def test_an_empty_partition_without_a_topic_id(log_dir: Path) -> None:
    (log_dir / "u--1").mkdir()
    said = told(log_dir, log_dir / "u--1")
    assert said["partition.empty"] == "Renames the directory to end in -stray, because it has no topic id."


def test_an_unclean_start_with_a_directory_is_not_foreseen(log_dir: Path) -> None:
    (log_dir / MARK).unlink()
    make_directory(log_dir / "t-0" / f"{0:020d}.timeindex")
    assert planned(log_dir) == ["truncate.broker-offline"]
    path = log_dir / "t-0" / f"{4:020d}.log"
    path.write_bytes(batch_v2([Record(offset=4, value=b"v")]))
    for suffix in ("index", "timeindex"):
        path.with_suffix(f".{suffix}").touch()
    assert planned(log_dir) == ["truncate.not-foreseen"]
