"""What verify says of directories in the place of files, and of unfinished copies, next to a real 4.3.1 broker."""

from __future__ import annotations

import asyncio
import shlex
import shutil
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from tests.integration import clients
from tests.integration.broker import TwoLogDirs
from tests.integration.releases import broker_of
from tests.integration.repairing import run
from tests.support import jars

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOPICS: Final = ("t0", "t1", "t2", "t3")
COUNT: Final = 3
FUTURE: Final = "0123456789abcdef0123456789abcdef-future"


@pytest.fixture(scope="module")
def stopped(libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[TwoLogDirs]:
    """A broker that stopped cleanly, and a topic in its second log directory; each test puts a copy there."""
    broker = TwoLogDirs(libs, tmp_path_factory.mktemp("odd"))
    broker.start()
    for topic in TOPICS:
        asyncio.run(_make(broker, topic))
    broker.stop()
    for path in (broker.log_dir, broker.second):
        shutil.copytree(path, path.with_name(f"{path.name}.kept"))
    yield broker
    broker.close()


@pytest.fixture
def broker(stopped: TwoLogDirs) -> Iterator[TwoLogDirs]:
    """The same, as it was after the clean stop."""
    for path in (stopped.log_dir, stopped.second):
        shutil.rmtree(path, ignore_errors=True)
        shutil.copytree(path.with_name(f"{path.name}.kept"), path)
    yield stopped
    stopped.kill()


async def _make(broker: TwoLogDirs, topic: str) -> None:
    async with clients.admin_of(broker) as admin:
        await admin.create_topics([clients.NewTopic(topic, 1, 1)])
    async with clients.producer_of(broker) as producer:
        for number in range(COUNT):
            await producer.send_and_wait(topic, b"%d" % number, partition=0)


def partition_of(broker: TwoLogDirs) -> Path:
    """The directory of a topic in the second log directory."""
    return min(broker.second.glob("t?-0"))


def make_directory(path: Path) -> None:
    """Put a directory in the place of a file."""
    path.unlink(missing_ok=True)
    path.mkdir()


def told(broker: TwoLogDirs, path: Path) -> dict[str, str]:
    """What verify says of an entry: the actions of a broker, by code."""
    rows = run("verify", broker.log_dir, broker.second).rows
    return {row["code"]: str(row["broker_action"]) for row in rows if row.get("file") == str(path) and "code" in row}


def planned(partition: Path) -> list[str]:
    """The codes of what `truncate --as-broker` finds."""
    return [str(row["code"]) for row in run("truncate", partition, "--as-broker").rows if row["type"] == "finding"]


@pytest.mark.parametrize(
    "name",
    [
        "partition.metadata",
        "leader-epoch-checkpoint",
        f"{COUNT:020d}.snapshot",
        f"{0:020d}.txnindex",
        f"{0:020d}.index",
    ],
)
def test_a_directory_in_the_place_of_a_file_of_a_partition(broker: TwoLogDirs, name: str) -> None:
    partition = partition_of(broker)
    make_directory(partition / name)
    said = told(broker, partition / name)
    assert len(said) == 1, said
    assert "offline" in next(iter(said.values()))
    foreseen = "truncate.not-foreseen" if name.endswith(".snapshot") else "truncate.broker-offline"
    assert planned(partition) == [foreseen]
    broker.start()
    assert f"failure on log directory {broker.second}" in broker.output


def test_a_snapshot_that_is_a_directory_after_a_crash(broker: TwoLogDirs) -> None:
    """The broker truncates whole batches."""
    partition = partition_of(broker)
    make_directory(partition / f"{COUNT:020d}.snapshot")
    (broker.second / ".kafka_cleanshutdown").unlink()
    assert "may truncate the log" in told(broker, partition / f"{COUNT:020d}.snapshot")["file.not-a-file"]
    assert planned(partition) == ["truncate.not-foreseen"]
    broker.start()
    assert asyncio.run(clients.end_offsets(broker, partition.name[:-2]))[0] == 0


@pytest.mark.parametrize("name", ["recovery-point-offset-checkpoint", "cleaner-offset-checkpoint", ".lock"])
def test_a_directory_at_the_top(broker: TwoLogDirs, name: str) -> None:
    make_directory(broker.second / name)
    assert told(broker, broker.second / name) == {"dir.not-a-partition": "Does not start."}
    with pytest.raises(AssertionError, match="did not start"):
        broker.start()


def test_meta_properties_that_is_a_directory(broker: TwoLogDirs) -> None:
    make_directory(broker.second / "meta.properties")
    said = told(broker, broker.second / "meta.properties")
    assert said == {"file.not-readable": "Takes the whole log directory offline."}
    broker.start()
    assert f"Failed to create or validate data directory {broker.second}" in broker.output


@pytest.mark.parametrize("is_empty", [True, False])
def test_a_clean_shutdown_file_that_is_a_directory(broker: TwoLogDirs, is_empty: bool) -> None:
    mark = broker.second / ".kafka_cleanshutdown"
    make_directory(mark)
    if not is_empty:
        (mark / "x").touch()
    said = told(broker, mark)
    assert set(said) == {"clean-shutdown.directory" if is_empty else "clean-shutdown.not-empty"}
    broker.start()
    assert (f"failure on log directory {broker.second}" in broker.output) != is_empty
    assert mark.exists() != is_empty
    assert "since no clean shutdown file was found" not in broker.output


@pytest.mark.parametrize(("version", "starts"), [("2.7.2", False), (jars.ZOOKEEPER_ERA, True)])
def test_the_release_from_which_the_directory_is_deleted(tmp_path: Path, version: str, starts: bool) -> None:
    try:
        old = broker_of(version, tmp_path)
    except jars.MissingError as missing:
        pytest.skip(str(missing))
    try:
        old.start()
        old.stop()
        make_directory(old.log_dir / ".kafka_cleanshutdown")
        with suppress(AssertionError):
            old.start()
        assert old.is_running == starts
    finally:
        old.close()


# --- unfinished copies ------------------------------------------------------------------------------------------------
@pytest.mark.parametrize("has_current", [True, False])
def test_a_copy_in_the_log_directory_that_the_metadata_log_assigns(broker: TwoLogDirs, has_current: bool) -> None:
    """It replaces the partition, whatever it holds."""
    partition = partition_of(broker)
    topic = partition.name[:-2]
    if has_current:
        shutil.copytree(partition, broker.log_dir / partition.name)
        for path in partition.glob("0*"):
            path.unlink()
    copy = partition.rename(f"{partition}.{FUTURE}")
    assert told(broker, copy)["dir.future-assigned"].startswith("Puts this copy in the place of the partition")
    assert "dir.moving" not in told(broker, copy)
    broker.start()
    assert asyncio.run(clients.end_offsets(broker, topic))[0] == (0 if has_current else COUNT)
    assert bool(list(broker.log_dir.glob(f"{topic}-0.*-delete"))) == has_current


@pytest.mark.parametrize("is_clean", [True, False])
def test_a_copy_without_its_partition(broker: TwoLogDirs, is_clean: bool) -> None:
    """The broker makes an empty one, and truncates the copy to it: all records are lost, unless it has the name."""
    partition = partition_of(broker)
    copy = partition.rename(broker.log_dir / f"{partition.name}.{FUTURE}")
    assert "creates an empty partition" in told(broker, copy)["dir.future-alone"].lower()
    shutil.copytree(broker.log_dir, broker.work_dir / "log-dir.copy")
    broker.start()
    assert asyncio.run(clients.end_offsets(broker, partition.name[:-2]))[0] == 0
    broker.stop()
    for path, kept in ((broker.log_dir, "log-dir.copy"), (broker.second, f"{broker.second.name}.kept")):
        shutil.rmtree(path)
        shutil.copytree(broker.work_dir / kept, path)
    shutil.rmtree(broker.work_dir / "log-dir.copy")
    shutil.rmtree(partition)
    (row,) = (row for row in run("recover", broker.log_dir, broker.second).rows if row.get("file") == str(copy))
    subprocess.run(shlex.split(str(row["next_command"])), check=True)
    assert not copy.exists()
    if not is_clean:
        for path in (broker.log_dir, broker.second):
            (path / ".kafka_cleanshutdown").unlink()
    broker.start()
    assert asyncio.run(clients.end_offsets(broker, partition.name[:-2]))[0] == COUNT


def test_a_copy_next_to_its_partition(broker: TwoLogDirs) -> None:
    partition = partition_of(broker)
    copy = Path(f"{partition}.{FUTURE}")
    shutil.copytree(partition, copy)
    said = told(broker, copy)
    assert "or does not start" in said["dir.future-beside-current"]
    assert "dir.future-assigned" not in said
    with pytest.raises(AssertionError, match="did not start"):
        broker.start()


def test_an_empty_directory_of_a_topic_without_an_id(broker: TwoLogDirs) -> None:
    partition = broker.second / "t1--1"
    partition.mkdir()
    assert told(broker, partition)["partition.empty"].startswith("Renames the directory to end in -stray")
    broker.start()
    assert list(broker.second.glob("t1--1.*-stray"))


def test_a_stray_directory_is_loaded_and_truncated_after_a_crash(broker: TwoLogDirs) -> None:
    """It is kept, and no record of it is served; but its log is recovered as any other."""
    partition = partition_of(broker)
    stray = Path(f"{partition}.{FUTURE.replace('future', 'stray')}")
    shutil.copytree(partition, stray)
    log = stray / f"{0:020d}.log"
    data = log.read_bytes()
    log.write_bytes(data[:-1] + b"D")
    (broker.second / ".kafka_cleanshutdown").unlink()
    (broker.second / "recovery-point-offset-checkpoint").write_bytes(b"0\n0\n")
    assert "after a crash it may truncate it" in told(broker, stray)["dir.stray"]
    broker.start()
    assert f"Loaded stray log: {stray}" in broker.output
    assert 0 < log.stat().st_size < len(data)
    assert asyncio.run(clients.end_offsets(broker, partition.name[:-2]))[0] == COUNT
