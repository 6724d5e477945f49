"""What a person reads first: what is wrong with a directory, before clients find it out."""

from __future__ import annotations

import os
import shutil
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest
from click.testing import CliRunner
from msgspec.structs import force_setattr

from kafkalog_cli.main import cli
from kafkalog_core.engine.selection import Selection
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import DeniedError, RefusedError, StorageError
from kafkalog_core.kafka.sim.logdir.top_files import read_broker_dir
from kafkalog_core.livebroker.disks.partition_dirs import BrokerDisk
from kafkalog_core.serve.disks.served_disks import DiskOptions, ServedDisks
from kafkalog_core.serve.disks.start_notes import finding_notes, unreadable_notes
from kafkalog_core.serve.network.socket_server import Listener, ListenError, NetworkServer
from kafkalog_core.storage.changing.writer import Attributes
from kafkalog_core.storage.logdir import read_log_dir
from tests.support.live_state import living

if TYPE_CHECKING:
    from collections.abc import Callable

DEMO: Final = Path(__file__).parents[3] / "fixtures" / "demo"


@pytest.fixture
def demo(tmp_path: Path) -> Path:
    """A copy of the directory of a broker that was stopped cleanly."""
    copy = tmp_path / "demo"
    shutil.copytree(DEMO, copy)
    for each in (copy, *copy.rglob("*")):
        each.chmod(0o755 if each.is_dir() else 0o644)
    return copy


def notes_of(path: Path) -> list[str]:
    disks = ServedDisks(resolve([str(path)], Selection()), DiskOptions())
    disks.close()
    return disks.notes


def _scramble(name: str) -> Callable[[Path], object]:
    return lambda path: (path / name).write_bytes(b"\xffgarbage\n")


@pytest.mark.parametrize(
    ("harm", "expected"),
    [
        (lambda _: None, []),
        (lambda path: (path / "meta.properties").unlink(), ["there is no meta.properties"]),
        (_scramble("meta.properties"), ["meta.properties: A broker refuses the file"]),
        (
            _scramble("replication-offset-checkpoint"),
            ["replication-offset-checkpoint: A broker refuses the file: line 1"],
        ),
    ],
)
def test_errors_in_the_files_of_a_log_directory(
    demo: Path, harm: Callable[[Path], object], expected: list[str]
) -> None:
    harm(demo)
    found = [note for note in notes_of(demo) if note.startswith("warning")]
    assert len(found) == len(expected)
    assert all(text in note and f"kafkalog verify {demo}" in note for text, note in zip(expected, found, strict=True))
    with living(demo) as live:
        assert [note for note in live.notes if note.startswith("warning")] == found


def test_a_long_list_is_cut(demo: Path) -> None:
    (demo / "replication-offset-checkpoint").write_bytes(b"x\n")
    broker_dir = read_broker_dir(read_log_dir(str(demo)))
    errors = [each for each in broker_dir.findings if each.severity == "error"]
    force_setattr(broker_dir, "findings", tuple(errors * 7))
    assert [note.partition("; ")[0].rpartition(": ")[2] for note in finding_notes(broker_dir)][5] == "2 more errors"


def test_partitions_that_this_user_may_not_read(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    closed = {f"{demo}/orders-0", f"{demo}/orders-1"}

    def denial(path: str, *, is_directory: bool = False) -> DeniedError | None:
        return DeniedError("user nobody has no permission", "run it as root", path=path) if path in closed else None

    monkeypatch.setattr("kafkalog_core.serve.disks.start_notes.denial", denial)
    (note,) = unreadable_notes([f"{demo}/orders-0", f"{demo}/orders-1", f"{demo}/customers-0"])
    assert note.startswith(f"warning: 2 partitions have no leader: {demo}/orders-0: user nobody has no permission")
    (note,) = [each for each in notes_of(demo) if "no leader" in each]
    assert note.startswith("warning: 2 partitions")


def test_a_directory_that_another_process_writes(demo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from kafkalog_core.storage.locks import Holder  # noqa: PLC0415

    monkeypatch.setattr(
        "kafkalog_core.serve.disks.start_notes.lock_holder", lambda _: Holder("process 7 (java)", "broker")
    )
    assert f"warning: {demo}: process 7 (java), most likely a running broker, holds the lock" in notes_of(demo)[0]


def test_the_directory_of_a_partition_is_not_a_log_directory(demo: Path) -> None:
    before = sorted(os.listdir(demo / "orders-0"))
    with pytest.raises(RefusedError, match=f"not a log directory.*kafkalog serve --read-write {demo}$"):
        living(demo / "orders-0").__enter__()
    assert sorted(os.listdir(demo / "orders-0")) == before


def test_the_end_of_a_log_that_does_not_form_a_batch(demo: Path) -> None:
    (log,) = demo.glob("customers-0/*0.log")
    size = log.stat().st_size
    log.write_bytes(log.read_bytes() + b"\xff" * 100)
    with living(demo) as live, pytest.raises(StorageError) as caught:
        live.log("customers")
    assert f"bytes {size} to {size + 99} do not form a batch" in str(caught.value)
    assert f"kafkalog recover {demo} --apply" in str(caught.value)
    done = CliRunner().invoke(cli, ["recover", str(demo), "--kafka", "4.3", "--apply"])
    assert done.exit_code == 0, done.output
    with living(demo) as live:
        assert live.log("customers").log_end_offset


def test_new_files_have_the_group_of_a_user_who_may_not_set_another(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 1234)
    monkeypatch.setattr(os, "getgroups", list)
    disk = BrokerDisk()
    disk.write_file(f"{tmp_path}/a", [b"x"], Attributes(uid=os.getuid(), gid=65_533, mode=0o640), None)
    assert (tmp_path / "a").stat().st_gid == tmp_path.stat().st_gid
    assert (tmp_path / "a").stat().st_mode & 0o777 == 0o640


def test_addresses_that_cannot_be_listened_on() -> None:
    def problem(host: str, port: int) -> str:
        with pytest.raises(ListenError) as caught:
            NetworkServer([Listener("PLAINTEXT", host, port)], None, float)  # type: ignore[arg-type]
        return str(caught.value)

    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        assert "another process listens there" in problem("127.0.0.1", port)
    assert "this machine does not have the address" in problem("192.0.2.7", 0)
    assert problem("no-such-host.invalid", 9092).startswith("cannot listen on no-such-host.invalid:9092: ")


def test_a_directory_whose_name_is_not_utf_8_is_named_and_not_served(tmp_path: Path) -> None:
    """A name in Kafka's protocol is UTF-8: one of Latin-1 closed the connections of all who listed topics."""
    for name in (b"caf\xe9-0", b"good-0"):
        shutil.copytree(os.fsencode(DEMO / "orders-0"), os.fsencode(tmp_path) + b"/" + name)
    note = "not served: 1 directory whose name is not UTF-8, such as caf?-0"
    assert note in notes_of(tmp_path)
    with living(tmp_path) as live:
        assert note in live.notes
        assert [each["name"] for each in live.ask("Metadata", 1, topics=None)["topics"]] == ["good"]
    assert (tmp_path / ".kafka_cleanshutdown").exists()
