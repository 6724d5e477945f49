"""A disk that is mounted read-only is served, also to a process that may not write there; nothing tries to write."""

from __future__ import annotations

import os
import shlex
import shutil
import subprocess
import sys
import tempfile
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from confluent_kafka import Consumer

from tests.support.live import QUIET, SECONDS, committed, read_all
from tests.support.serving import address, serving

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.live

DEMO: Final = Path(__file__).resolve().parents[2] / "fixtures" / "demo"
ISOLATIONS: Final = ("read_uncommitted", "read_committed")
OWNER: Final = 12345
WITHOUT_RIGHTS: Final = "setpriv --bounding-set=-all --inh-caps=-all"
"""Root without capabilities is anybody else for the files of another owner."""

WRITES: Final = os.O_WRONLY | os.O_RDWR | os.O_CREAT | os.O_TRUNC | os.O_APPEND
CHANGES: Final = {
    "os.chmod",
    "os.chown",
    "os.link",
    "os.mkdir",
    "os.remove",
    "os.rename",
    "os.rmdir",
    "os.setxattr",
    "os.symlink",
    "os.truncate",
    "os.utime",
}


def topics_of(directory: Path) -> list[str]:
    """The topics on a disk."""
    names = {place.name.rpartition("-")[0] for place in directory.glob("*-[0-9]*") if place.is_dir()}
    return sorted(names - {"__cluster_metadata"})


def seen_by_clients(at: str, topics: list[str]) -> list[Any]:
    """All records in both isolation levels, and the committed offsets of the demo's group."""
    return [*(read_all(at, topics, each) for each in ISOLATIONS), committed(at, "billing")]


def group_reads(at: str, topic: str) -> int:
    """A new group reads a topic, and commits; the number of records."""
    options = {"group.id": "late", "auto.offset.reset": "earliest", "enable.auto.commit": False}
    consumer = Consumer({"bootstrap.servers": at, "enable.partition.eof": True, **options, **QUIET})
    consumer.subscribe([topic])
    count, ended = 0, 0
    while not consumer.assignment() or ended < len(consumer.assignment()):
        message = consumer.poll(SECONDS)
        assert message is not None
        count, ended = count + (message.error() is None), ended + (message.error() is not None)
    consumer.commit(asynchronous=False)
    consumer.close()
    return count


@contextmanager
def mounted(source: Path, prefix: str = "") -> Iterator[str]:
    """Where a disk is served that is mounted read-only for this server alone; the test is skipped where nobody may."""
    place = Path(tempfile.mkdtemp(prefix="kafkalog-read-only-"))
    target = shlex.quote(str(place))
    mount = f"mount --bind {shlex.quote(str(source))} {target} && mount -o remount,bind,ro {target}"
    probe = ["unshare", "--mount", "sh", "-c", f"{mount} && ! touch {target}/probe"]
    if shutil.which("unshare") is None or subprocess.run(probe, capture_output=True, check=False).returncode:
        place.rmdir()
        pytest.skip("no mount can be made here, which takes root")
    serve = f"{prefix} {shlex.quote(sys.executable)} -m kafkalog_cli serve --listen 127.0.0.1:0 {target}"
    command = ["unshare", "--mount", "sh", "-c", f"{mount} && exec {serve}"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            assert line.startswith("serving ")
            yield line.split()[-1]
        finally:
            server.terminate()
            status = server.wait(SECONDS)
            place.rmdir()
    assert status == 0


@pytest.fixture
def disk(tmp_path: Path) -> Path:
    """The demo's disk, of another owner, who may not write either."""
    copy = tmp_path / "disk"
    shutil.copytree(DEMO, copy)
    for path in [*copy.rglob("*"), copy] if os.geteuid() == 0 else ():
        path.chmod(0o555 if path.is_dir() else 0o444)
        os.chown(path, OWNER, OWNER)
    return copy


@pytest.mark.parametrize("prefix", ["", WITHOUT_RIGHTS], ids=["root", "no rights"])
def test_a_disk_that_is_mounted_read_only_is_served(disk: Path, prefix: str) -> None:
    topics = topics_of(disk)
    with serving(DEMO) as broker:
        expected = seen_by_clients(address(broker), topics)
    assert sum(map(len, expected[0].values())) > sum(map(len, expected[1].values())) > 200
    with mounted(disk, prefix) as at:
        assert seen_by_clients(at, topics) == expected
        assert group_reads(at, "orders") == 200
        assert committed(at, "late")


def test_a_user_without_rights_cannot_write_there(disk: Path) -> None:
    """Else the test above would show nothing."""
    if os.geteuid() != 0:
        pytest.skip("who takes its own rights away is root")
    command = [*WITHOUT_RIGHTS.split(), "touch", str(disk / "orders-0" / "file")]
    assert subprocess.run(command, capture_output=True, check=False).returncode != 0


class _Watch:
    """Records what is opened for writing or changed under a directory; Python has no way to take a hook back."""

    def __init__(self) -> None:
        self.directory: str | None = None
        self.opened = 0
        self.found: list[tuple[str, object]] = []
        sys.addaudithook(self._see)

    def _see(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.directory is None or not (event == "open" or event in CHANGES):
            return
        if not str(arguments[0]).startswith(self.directory):
            return
        self.opened += 1
        if event != "open" or (arguments[2] or 0) & WRITES:
            self.found.append((event, arguments))


_WATCH: Final[list[_Watch]] = []


def test_no_file_is_opened_for_writing(disk: Path) -> None:
    _WATCH[:] = _WATCH or [_Watch()]
    watch = _WATCH[0]
    watch.directory, watch.opened, watch.found = str(disk), 0, []
    try:
        with serving(disk) as broker:
            seen_by_clients(address(broker), topics_of(disk))
            group_reads(address(broker), "orders")
    finally:
        watch.directory = None
    assert watch.opened > 5
    assert not watch.found


@pytest.mark.corpus
def test_a_disk_of_the_corpus_is_served_from_a_read_only_mount(corpus: Path) -> None:
    for log_dir in sorted(corpus.glob("modern/03-*-4*/logdir")):
        topics = topics_of(log_dir)
        with serving(log_dir) as broker:
            expected = seen_by_clients(address(broker), topics)
        with mounted(log_dir, WITHOUT_RIGHTS) as at:
            assert seen_by_clients(at, topics) == expected
