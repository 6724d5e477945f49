"""What a person sees of transactions: the first line answers, and each hanging one has its command."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.topics.transactions import TransactionPhase, TransactionValue
from tests.ops.transactions.transaction_disks import Written, batch, marker, transactional
from tests.support.build import Record

if TYPE_CHECKING:
    from pathlib import Path

NOW: Final = 2_000_000_000_000
T: Final = frozenset({("t", 0)})


def shown(*words: object, columns: int = 1000) -> list[str]:
    """The lines of the command as text."""
    words = ("transactions", "--now", NOW, *words)
    done = CliRunner().invoke(cli, list(map(str, words)), catch_exceptions=False, env={"COLUMNS": str(columns)})
    assert done.exit_code in {0, 4}, done.output
    return done.stdout.splitlines()


def value(state: TransactionPhase, producer_id: int, **fields: object) -> TransactionValue:
    """A state of a transaction that began an hour ago."""
    start_ms = NOW - 3_600_000
    fields = {"timeout_ms": 7_200_000, "update_ms": start_ms, "start_ms": start_ms} | fields
    return TransactionValue(producer_id=producer_id, producer_epoch=0, state=state, **fields)  # type: ignore[arg-type]


def test_the_worst_is_on_the_first_line_and_the_others_are_counted(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    disk.states(
        ("ongoing", value(TransactionPhase.ONGOING, 1, partitions=T)),
        ("prepared", value(TransactionPhase.PREPARE_COMMIT, 2, partitions=frozenset({("u", 0)}))),
        ("over", value(TransactionPhase.COMPLETE_COMMIT, 3)),
        ("empty", value(TransactionPhase.EMPTY, 4, start_ms=-1)),
    )
    disk.log("t-0", [transactional(0, 1), batch(Record(offset=1, value=b"v"))])
    disk.log("u-0", [transactional(0, 2)])
    disk.log("w-0", [transactional(0, 3, timestamp_ms=NOW - 5), batch(Record(offset=1, value=b"v"))])
    lines = shown(disk.path)
    assert lines[0] == (
        "HANGING: w-0 is held back at offset 0 by over; 2 records wait there; 2 more partitions held back "
        "(1 ongoing, 1 prepared)."
    )
    assert lines[2] == (
        "    kafka-transactions.sh --bootstrap-server localhost:9092 abort --topic w --partition 0 --start-offset 0"
    )
    text = "\n".join(lines)
    assert (
        "Nothing ends it: the transaction of over is CompleteCommit, so its coordinator sends no marker here." in text
    )
    assert "The coordinator sends COMMIT markers to its 1 partition again, and completes it." in text
    assert "The coordinator keeps it open for its producer until 2033-05-18T04:33:20.000Z, then it aborts it." in text
    assert "1 transactional id without an open transaction: 1 empty (--all shows them)" in text
    assert lines[-1] == "exit status 0"
    everything = "\n".join(shown("--all", disk.path))
    assert "empty (--all" not in everything
    assert "in the log of" in everything
    narrow = shown(disk.path, columns=80)
    (command,) = (line for line in narrow if "kafka-transactions.sh" in line)
    assert command.endswith("--start-offset 0")  # a command is never broken
    assert max(len(line) for line in narrow if line != command) <= 80


def test_one_that_holds_nothing_back_here_is_still_the_answer(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    disk.states(("app", value(TransactionPhase.PREPARE_ABORT, 1, partitions=T)))
    disk.log("u-0", [batch(Record(value=b"v"))])
    lines = shown(disk.path)
    assert lines[0] == "PREPARED: the transaction of app, but no partition here is held back."
    assert "    Not on these disks: t-0." in lines


def test_the_next_open_transaction_is_named(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    disk.states(*((f"app-{n}", value(TransactionPhase.ONGOING, n, partitions=T)) for n in (1, 2)))
    disk.log("t-0", [transactional(0, 1), transactional(1, 2)])
    lines = shown(disk.path)
    assert lines[0] == "OPEN: t-0 is held back at offset 0 by app-1, open for 1 h; 2 records wait there."
    assert "    After it, another transaction hold it back at offset 1." not in lines
    assert "    After it, another transaction holds it back at offset 1." in lines


def test_copies_are_shown_by_their_paths(tmp_path: Path) -> None:
    leader, follower = Written(tmp_path / "1"), Written(tmp_path / "2")
    leader.states(("app", value(TransactionPhase.COMPLETE_COMMIT, 7)))
    leader.log("t-0", [transactional(0, 7), marker(1, 7), transactional(2, 7)])
    follower.log("t-0", [transactional(0, 7)])
    text = "\n".join(shown(leader.path, follower.path))
    assert text.startswith("HANGING: t-0 is held back at offset 2 by app; 1 record waits there.")
    for disk in (leader, follower):
        assert f"\n{disk.path}/t-0 " in text
    assert (
        f"Fetches its marker: the copy {leader.path}/t-0, with which a cluster goes on, does not have it open." in text
    )
    assert "Not" not in text.splitlines()[0]


def test_what_is_missing_is_said(tmp_path: Path) -> None:
    disk = Written(tmp_path / "d")
    disk.log("t-0", [transactional(0, 7)])
    text = "\n".join(shown(disk.path))
    assert text.startswith("OPEN, AND UNKNOWN WHO ENDS IT: t-0 is held back at offset 0 by producer 7;")
    assert "Name the log directories of all brokers, or ask the brokers once they run:" in text
    assert "find-hanging --topic t --partition 0" in text
    assert "the transactions of coordinators are not all known: __transaction_state is not on these disks" in text
    (disk.path / "u-0").mkdir()
    spoiled = bytearray(marker(1, 7))
    spoiled[-1] ^= 1
    (disk.path / "u-0" / f"{0:020}.log").write_bytes(transactional(0, 7) + spoiled + batch(Record(offset=2)))
    text = "\n".join(shown(disk.path))
    assert f"damage that may hide a marker: u-0/{0:020}.log, byte {len(transactional(0, 7))}, crc-mismatch: " in text
    assert text.endswith("exit status 4")
