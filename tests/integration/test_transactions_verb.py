"""What `kafkalog transactions` says of a dead disk is what a real broker does that starts on it, and its tool says."""

from __future__ import annotations

import json
import shlex
import shutil
import time
from typing import TYPE_CHECKING, Any, Final

import pytest
from click.testing import CliRunner

from kafkalog_cli.main import cli
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC
from tests.integration.successor import Successor
from tests.integration.transactions import LOADS_ALONE, asked, described, kill_within_a_commit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from pathlib import Path

    from tests.integration.tool_runner import ToolRunner

pytestmark = [pytest.mark.java, pytest.mark.slow]

VERSION: Final = "4.3.1"
TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
PLACE: Final = ("tx.hanging", 0)
SECONDS: Final = 120
Row = dict[str, Any]


def rows_of(kind: str, *words: object) -> list[Row]:
    """Rows of `kafkalog transactions`."""
    done = CliRunner().invoke(cli, ["transactions", "--output", "ndjson", *map(str, words)], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return [row for row in map(json.loads, done.stdout.splitlines()) if row["type"] == kind]


def wait_until(is_so: Callable[[], bool]) -> None:
    """Wait for what a broker does in its own time."""
    deadline = time.monotonic() + SECONDS
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.3)


def open_in(address: str, topic: str, number: int) -> dict[int, int]:
    """First offset of the open transaction of each producer of a partition, as a broker describes them."""
    body = {"topics": [{"name": topic, "partition_indexes": [number]}]}
    (answer,) = asked(address, "DescribeProducers", 0, body)["topics"][0]["partitions"]
    producers = {each["producer_id"]: each["current_txn_start_offset"] for each in answer["active_producers"]}
    return {producer_id: first for producer_id, first in producers.items() if first >= 0}


@pytest.fixture
def successor(corpus: Path, libs: Path, tmp_path: Path) -> Iterator[Successor]:
    """A real broker over a copy of the disk of another one, which was stopped in a transaction."""
    shutil.copytree(corpus / "modern" / "03-transactions-4.3.1" / "logdir", tmp_path / "data", symlinks=True)
    broker = Successor(libs, tmp_path / "real", tmp_path / "data")
    yield broker
    broker.close()


def test_a_start_ends_what_is_timed_out_or_prepared(successor: Successor) -> None:
    names = kill_within_a_commit(successor.log_dir)
    before = {row["transactional_id"]: row for row in rows_of("transaction", successor.log_dir)}
    by_kind: dict[str, list[str]] = {}
    for name in names:
        by_kind.setdefault(before[name]["kind"], []).append(name)
    assert by_kind["timed-out"] == ["tx.H2"]
    assert len(by_kind["prepared"]) == 1
    held = {(row["topic"], row["partition"]): row for row in rows_of("stable_offset", successor.log_dir)}
    assert {row["transactional_id"] for row in held.values()} == {"tx.H2", *by_kind["prepared"]}
    successor.start()
    ends = {"PrepareCommit": "CompleteCommit", "PrepareAbort": "CompleteAbort", "Ongoing": "CompleteAbort"}
    expected = {name: ends.get(before[name]["state"], before[name]["state"]) for name in names}

    def states() -> dict[str, str]:
        return {each["transactional_id"]: each["transaction_state"] for each in described(successor.bootstrap, names)}

    wait_until(lambda: states() == expected)
    for place in held:
        assert open_in(successor.bootstrap, *place) == {}
    successor.stop()
    assert rows_of("stable_offset", successor.log_dir) == []


@pytest.mark.parametrize("release", ["4.3", "2.8"])
def test_nothing_ends_a_hanging_one_but_the_command_that_is_shown(
    successor: Successor, tools: ToolRunner, release: str
) -> None:
    state = successor.log_dir / f"{TRANSACTIONS_TOPIC}-0"  # its records were lost, with those of tx.H2
    for path in [*state.glob("*.log"), *state.glob("*index"), *state.glob("*.snapshot")]:
        path.unlink()
    (state / f"{0:020}.log").touch()
    (part,) = rows_of("transaction_part", "--kafka", release, successor.log_dir)
    assert ("--start-offset" in part["next_command"]) is (release == "4.3")
    assert (part["topic"], part["partition"], part["kind"], part["first_offset"]) == (*PLACE, "hanging", 5)
    successor.configure(LOADS_ALONE)
    successor.start()
    server = f"--bootstrap-server {successor.bootstrap}"
    assert open_in(successor.bootstrap, *PLACE) == {part["producer_id"]: part["first_offset"]}
    arguments = f"{server} find-hanging --topic {PLACE[0]} --partition {PLACE[1]} --max-transaction-timeout 0"
    lines = tools.run(VERSION, TOOL, arguments).out.splitlines()
    assert len(lines) == 2
    cells = dict(zip(lines[0].split(), lines[1].split(), strict=False))
    assert (cells["Topic"], int(cells["Partition"])) == PLACE
    assert int(cells["ProducerId"]) == part["producer_id"]
    assert int(cells["ProducerEpoch"]) == part["producer_epoch"]
    assert int(cells["StartOffset"]) == part["first_offset"]
    program, *words = shlex.split(part["next_command"])
    assert program == "kafka-transactions.sh"
    words[words.index("--bootstrap-server") + 1] = successor.bootstrap
    done = tools.run(VERSION, TOOL, " ".join(words))
    assert done.status == 0, done
    assert open_in(successor.bootstrap, *PLACE) == {}
    successor.stop()
    assert rows_of("stable_offset", successor.log_dir) == []
    aborted = rows_of("transaction_part", "--producer", part["producer_id"], successor.log_dir)
    assert [(row["kind"], row["first_offset"], row["is_listed"]) for row in aborted] == [("aborted", 5, True)]
