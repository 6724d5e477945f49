"""What each file of a log directory is, and that the sizes add up to what `du` prints."""

from __future__ import annotations

import os
import subprocess
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.ops.usage.disk_items import LEFTOVERS, DiskItem, ItemKind, Seen, disk_items
from kafkalog_core.storage.logdir import read_log_dir
from tests.support import build
from tests.support.log_dirs import write_log_dir, write_partition
from tests.support.other_users import let_others_in

if TYPE_CHECKING:
    from collections.abc import Iterable

CRASHED = Path(__file__).resolve().parents[3] / "fixtures" / "crashed"
JOURNAL = "kafkalog-undo-20260102T030405Z-1"
UUID = "a" * 32


def items(*paths: Path) -> list[DiskItem]:
    seen: Seen = set()
    return [item for path in paths for item in disk_items(str(path), seen=seen)]


def kinds(found: Iterable[DiskItem], root: Path) -> dict[str, ItemKind]:
    return {os.path.relpath(item.path, root): item.kind for item in found}


def sums(found: Iterable[DiskItem]) -> tuple[int, int]:
    counted = [item for item in found if not item.is_repeated]
    return sum(item.size_bytes for item in counted), sum(item.allocated_bytes for item in counted)


def du(path: Path, *options: str) -> int:
    ran = subprocess.run(["du", "-s", "-B1", *options, path], capture_output=True, text=True, check=False)
    return int(ran.stdout.split()[0])


def du_says(path: Path) -> tuple[int, int]:
    return du(path, "--apparent-size"), du(path)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    return write_log_dir(tmp_path / "logs", ["t-0", "t-1"])


def test_each_file_has_its_kind(log_dir: Path) -> None:
    for name in (f"u-3.{UUID}-delete", f"t-0.{UUID}-future", f"v-0.{UUID}-stray", "remote-log-index-cache"):
        (log_dir / name).mkdir()
        (log_dir / name / f"{0:020d}.log").write_bytes(b"x" * 5000)
    (log_dir / "remote-log-index-cache" / f"0_{'A' * 22}.index").write_bytes(b"x")
    (log_dir / "lost+found").mkdir()
    (log_dir / "lost+found" / "#12").write_bytes(b"x")
    (log_dir / JOURNAL).mkdir()
    (log_dir / JOURNAL / "intent.json").write_bytes(b"{}")
    t = log_dir / "t-0"
    write_partition_files(t)
    (t / JOURNAL).mkdir()
    (t / JOURNAL / "old-0").write_bytes(b"x")
    (t / "link").symlink_to(t / "notes.txt")
    (log_dir / "heap.hprof").write_bytes(b"x")
    (log_dir / "meta.properties.tmp").write_bytes(b"x")
    os.mkfifo(log_dir / "pipe")
    found = items(log_dir)
    expected = {
        ".": ItemKind.DIRECTORY,
        "meta.properties": ItemKind.CHECKPOINT,
        ".kafka_cleanshutdown": ItemKind.CHECKPOINT,
        "meta.properties.tmp": ItemKind.TEMPORARY,
        "heap.hprof": ItemKind.FOREIGN,
        "pipe": ItemKind.FOREIGN,
        "lost+found": ItemKind.DIRECTORY,
        "lost+found/#12": ItemKind.FOREIGN,
        f"{JOURNAL}/intent.json": ItemKind.JOURNAL,
        f"u-3.{UUID}-delete/{0:020d}.log": ItemKind.DELETE,
        f"t-0.{UUID}-future/{0:020d}.log": ItemKind.FUTURE,
        f"v-0.{UUID}-stray/{0:020d}.log": ItemKind.STRAY,
        f"remote-log-index-cache/0_{'A' * 22}.index": ItemKind.REMOTE_INDEX,
        f"remote-log-index-cache/{0:020d}.log": ItemKind.FOREIGN,
        f"t-0/{0:020d}.log": ItemKind.CLOSED,
        f"t-0/{100:020d}.log": ItemKind.ACTIVE,
        f"t-0/{100:020d}.index": ItemKind.OFFSET_INDEX,
        f"t-0/{100:020d}.timeindex": ItemKind.TIME_INDEX,
        f"t-0/{100:020d}.txnindex": ItemKind.TXN_INDEX,
        f"t-0/{100:020d}.snapshot": ItemKind.SNAPSHOT,
        f"t-0/{50:020d}.log.deleted": ItemKind.DELETED,
        f"t-0/{50:020d}.log.swap": ItemKind.SWAP,
        f"t-0/{50:020d}.log.cleaned": ItemKind.CLEANED,
        "t-0/leader-epoch-checkpoint": ItemKind.CHECKPOINT,
        "t-0/partition.metadata": ItemKind.CHECKPOINT,
        "t-0/partition.metadata.tmp": ItemKind.TEMPORARY,
        "t-0/notes.txt": ItemKind.FOREIGN,
        "t-0/7.log": ItemKind.FOREIGN,
        "t-0/link": ItemKind.LINK,
        f"t-0/{JOURNAL}/old-0": ItemKind.JOURNAL,
        f"t-1/{0:020d}.log": ItemKind.ACTIVE,
    }
    shown = kinds(found, log_dir)
    assert {name: shown.get(name) for name in expected} == expected
    assert sums(found) == du_says(log_dir)
    by_topic = Counter(item.topic for item in found if item.kind in LEFTOVERS)
    assert by_topic == {"t": 3, "u": 1, None: 1}


def write_partition_files(path: Path) -> None:
    for name in (
        *(f"{100:020d}.{end}" for end in ("log", "index", "timeindex", "txnindex", "snapshot")),
        *(f"{50:020d}.log.{end}" for end in ("deleted", "swap", "cleaned")),
        "partition.metadata.tmp",
        "notes.txt",
        "7.log",
    ):
        (path / name).write_bytes(b"x" * 100)


def test_a_log_of_0_7_counts_where_there_is_no_newer_one(tmp_path: Path) -> None:
    old = write_partition(tmp_path / "logs" / "t-0")
    (old / f"{0:020d}.kafka").write_bytes(b"x")
    only = tmp_path / "logs" / "u-0"
    only.mkdir()
    (only / f"{0:020d}.kafka").write_bytes(build.message_v07(b"v"))
    (only / f"{14:020d}.kafka").write_bytes(build.message_v07(b"v"))
    shown = kinds(items(tmp_path / "logs"), tmp_path / "logs")
    assert shown[f"t-0/{0:020d}.kafka"] is ItemKind.FOREIGN
    assert shown[f"t-0/{0:020d}.log"] is ItemKind.ACTIVE
    assert shown[f"u-0/{0:020d}.kafka"] is ItemKind.CLOSED
    assert shown[f"u-0/{14:020d}.kafka"] is ItemKind.ACTIVE


def test_preallocated_bytes_are_measured_both_ways(log_dir: Path) -> None:
    index, times = (log_dir / "t-0" / f"{0:020d}.{end}" for end in ("index", "timeindex"))
    index.write_bytes(build.offset_index([(8 * n, 4096 * n) for n in range(1, 601)]))
    os.truncate(index, 10 * 1024 * 1024)
    times.write_bytes(build.time_index([(1000, 99)]) + bytes(5 * 1024 * 1024))
    found = {item.path: item for item in items(log_dir)}
    sparse, full = found[str(index)], found[str(times)]
    assert (sparse.size_bytes, sparse.slack_bytes) == (10 * 1024 * 1024, 10 * 1024 * 1024 - 4800)
    assert sparse.slack_allocated_bytes == sparse.allocated_bytes - 8192
    assert full.slack_bytes == 5 * 1024 * 1024
    assert full.slack_allocated_bytes == full.allocated_bytes - 4096
    assert sums(found.values()) == du_says(log_dir)


def test_the_slack_that_a_killed_broker_left() -> None:
    # `zeros` of each index is what its name's broker had preallocated: log.index.size.max.bytes of 10 KiB.
    by_hand = 0
    for path in CRASHED.glob("*/*index"):
        data, entry = path.read_bytes(), 8 if path.suffix == ".index" else 12
        if path.suffix != ".txnindex" and len(data) > 4096:
            by_hand += len(data) - -(-len(data.rstrip(b"\0")) // entry) * entry
    assert sum(item.slack_bytes for item in items(CRASHED)) == by_hand > 0


def test_a_file_with_two_names_counts_once(log_dir: Path, tmp_path: Path) -> None:
    other = write_log_dir(tmp_path / "other", ["w-0"])
    log = log_dir / "t-0" / f"{0:020d}.log"
    os.link(log, log_dir / "t-0" / f"{0:020d}.log.deleted")
    os.link(log, other / "w-0" / f"{7:020d}.log")
    found = items(log_dir, other)
    linked = [item for item in found if item.is_linked]
    assert len(linked) == 3
    assert sorted(item.is_repeated for item in linked) == [False, True, True]  # the active log comes last
    ran = subprocess.run(["du", "-c", "-B1", log_dir, other], capture_output=True, text=True, check=True)
    assert sums(found)[1] == int(ran.stdout.splitlines()[-1].split()[0])


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can be another user")
def test_what_this_user_may_not_see_is_unknown(log_dir: Path) -> None:
    let_others_in(log_dir)
    log_dir.chmod(0o755)
    (log_dir / "t-0").chmod(0o700)
    index = log_dir / "t-1" / f"{0:020d}.index"
    index.write_bytes(bytes(8192))
    index.chmod(0o600)
    (log_dir / "t-1").chmod(0o755)
    groups = os.getgroups()
    os.setgroups([])
    os.seteuid(65534)
    try:
        found = items(log_dir)
        said = du_says(log_dir)
    finally:
        os.seteuid(0)
        os.setgroups(groups)
    problems = {item.path: (item.kind, item.finding.message) for item in found if item.finding is not None}
    assert problems.keys() == {str(log_dir / "t-0"), str(index)}
    assert problems[str(log_dir / "t-0")][0] is ItemKind.UNKNOWN
    assert problems[str(index)][0] is ItemKind.OFFSET_INDEX
    assert all("no permission" in message for _, message in problems.values())
    assert sums(found) == said


def test_selected_partitions(log_dir: Path) -> None:
    places = [place for place in read_log_dir(str(log_dir)).partitions if place.name.partition == 1]
    found = list(disk_items(str(log_dir), places))
    assert {item.path for item in found if item.kind is ItemKind.DIRECTORY} == {str(log_dir / "t-1")}
    assert {item.partition for item in found} == {1}
    assert sums(found) == du_says(log_dir / "t-1")


def test_a_link_to_a_partition_is_not_followed(log_dir: Path, tmp_path: Path) -> None:
    write_partition(tmp_path / "elsewhere" / "x-0")
    (log_dir / "x-0").symlink_to(tmp_path / "elsewhere" / "x-0")
    found = items(log_dir)
    assert kinds(found, log_dir)["x-0"] is ItemKind.LINK
    assert sums(found) == du_says(log_dir)
