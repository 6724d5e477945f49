"""`kafka-transactions.sh` over a dead disk says what a real broker says that opens a copy of it."""

from __future__ import annotations

import shutil
import subprocess
import sys
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import pytest

from tests.integration.successor import Successor
from tests.integration.tool_uses import NEWEST
from tests.integration.transactions import EXPIRATION_MS, LOADS_ALONE, asked, described

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from tests.integration.tool_runner import ToolRunner

pytestmark = [pytest.mark.java, pytest.mark.slow]

TOOL: Final = "org.apache.kafka.tools.TransactionsCommand"
DURATION: Final = 7  # the cell with it in a description
NO_FILTERS: Final[dict[str, Any]] = {
    "state_filters": [],
    "producer_id_filters": [],
    "duration_filter": -1,
    "transactional_id_pattern": None,
}
Row = tuple[str, ...]


@contextmanager
def served(*paths: Path, options: tuple[str, ...] = ()) -> Iterator[str]:
    """Where some disks are served."""
    command = [sys.executable, "-m", "kafkalog_cli", "serve", "--listen", "127.0.0.1:0", *options, *map(str, paths)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout is not None
        line = server.stdout.readline()
        try:
            yield line.split()[-1]
        finally:
            server.terminate()
            assert server.wait(20) == 0


def rows_of(tools: ToolRunner, address: str, arguments: str) -> list[Row]:
    """The rows that the tool prints, without the head."""
    done = tools.run(NEWEST, TOOL, f"--bootstrap-server {address} {arguments}")
    lines = [line.rstrip("\t ").split("\t") for line in done.out.splitlines()]
    assert lines, done
    return sorted(tuple(cell.strip() for cell in line) for line in lines[1:])


@pytest.fixture(scope="module", params=["03-transactions-4.3.1", "08-internal-4.3.1"])
def disk(request: pytest.FixtureRequest, corpus: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A log directory with transactions."""
    found = next(corpus.glob(f"*/{request.param}/logdir"), None)
    if found is None:
        pytest.skip(f"{request.param} is not in this part of the corpus")
    copy = tmp_path_factory.mktemp("disk") / "logdir"
    shutil.copytree(found, copy, symlinks=True)
    return copy


@pytest.fixture(scope="module")
def dead(disk: Path) -> Iterator[str]:
    """Where the disk is served."""
    with served(disk) as address:
        yield address


@pytest.fixture(scope="module")
def alive(disk: Path, libs: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Where a real broker runs over a copy of the disk."""
    work_dir = tmp_path_factory.mktemp("real")
    shutil.copytree(disk, work_dir / "data", symlinks=True)
    broker = Successor(libs, work_dir / "broker", work_dir / "data")
    broker.configure(LOADS_ALONE)
    broker.start()
    try:
        while not asked(broker.bootstrap, "ListTransactions", 0, NO_FILTERS)["transaction_states"]:
            time.sleep(0.2)  # its coordinator still loads
        yield broker.bootstrap
    finally:
        broker.close()


FILTERS: Final[tuple[dict[str, Any], ...]] = (
    {},
    {"state_filters": ["Ongoing", "Empty", "Unheard"]},
    {"producer_id_filters": [0, 1, 2, 12]},
    {"duration_filter": 0},
    {"transactional_id_pattern": ".*[A-D]"},
    {"transactional_id_pattern": "["},
)


@pytest.mark.parametrize("filters", FILTERS, ids=str)
def test_the_same_transactions_are_listed_and_described(dead: str, alive: str, filters: dict[str, Any]) -> None:
    ours, theirs = (asked(each, "ListTransactions", 2, NO_FILTERS | filters) for each in (dead, alive))
    for each in (ours, theirs):
        each["transaction_states"].sort(key=lambda state: state["transactional_id"])
        each["unknown_state_filters"].sort()
    assert ours == theirs
    names = [*(state["transactional_id"] for state in ours["transaction_states"]), "unheard", ""]
    assert described(dead, names) == described(alive, names)
    assert filters or len(names) > 3


def test_the_same_producers_are_described(disk: Path, dead: str, alive: str) -> None:
    now_ms, found = time.time() * 1000, 0
    for place in sorted(disk.glob("*-[0-9]")):
        topic, _, number = place.name.rpartition("-")
        if topic in {"__cluster_metadata", "__share_group_state"}:
            continue
        body = {"topics": [{"name": topic, "partition_indexes": [int(number), 99]}]}
        answers = [asked(each, "DescribeProducers", 0, body)["topics"][0]["partitions"] for each in (dead, alive)]
        codes = [[each["error_code"] for each in answer] for answer in answers]
        assert codes[0] == codes[1]
        ours, theirs = ({row["producer_id"]: row for row in answer[0]["active_producers"]} for answer in answers)
        kept = {
            producer_id: row
            for producer_id, row in ours.items()
            if row["current_txn_start_offset"] >= 0 or now_ms - row["last_timestamp"] < EXPIRATION_MS
        }
        assert kept == theirs, place.name
        found += len(theirs)
    assert found


def test_kafkas_tool_shows_the_same(tools: ToolRunner, dead: str, alive: str) -> None:
    listed = rows_of(tools, dead, "list")
    assert listed
    assert listed == rows_of(tools, alive, "list")
    name = next(row[0] for row in listed if row[3] == "Ongoing")
    ours, theirs = (rows_of(tools, each, f"describe --transactional-id {name}")[0] for each in (dead, alive))
    assert [cell for number, cell in enumerate(ours) if number != DURATION] == [
        cell for number, cell in enumerate(theirs) if number != DURATION
    ]
    place, _, number = ours[-1].rpartition("-")
    arguments = f"describe-producers --topic {place} --partition {number}"
    open_ones, others = (
        [row for row in rows_of(tools, each, arguments) if row[-1] != "None"] for each in (dead, alive)
    )
    assert open_ones == others
    assert open_ones


def test_kafkas_tool_finds_the_same_hanging_transactions(tools: ToolRunner, dead: str, alive: str) -> None:
    arguments = "find-hanging --broker-id 1 --max-transaction-timeout 0"
    ours, theirs = rows_of(tools, dead, arguments), rows_of(tools, alive, arguments)
    assert [row[:-1] for row in ours] == [row[:-1] for row in theirs], "the last cell is a duration"


def test_an_open_transaction_of_no_known_id_is_found(tools: ToolRunner, disk: Path) -> None:
    with served(disk, options=("--exclude", "__transaction_state")) as address:
        found = rows_of(tools, address, "find-hanging --broker-id 1 --max-transaction-timeout 0")
        open_ones = {
            (topic, row["producer_id"], row["current_txn_start_offset"])
            for topic in {place.name.rpartition("-")[0] for place in disk.glob("*-0")} - {"__cluster_metadata"}
            for row in asked(address, "DescribeProducers", 0, {"topics": [{"name": topic, "partition_indexes": [0]}]})[
                "topics"
            ][0]["partitions"][0]["active_producers"]
            if row["current_txn_start_offset"] >= 0
        }
    assert {(row[0], int(row[2]), int(row[5])) for row in found} == open_ones
    assert open_ones
