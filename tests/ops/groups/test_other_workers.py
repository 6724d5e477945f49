"""Groups and transactions that other workers read, as Spark's tasks do: the rows and the counts are the same."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import SelectionError
from kafkalog_core.kafka.sim import group_states
from kafkalog_core.ops.groups.groups import groups
from kafkalog_core.ops.groups.request import GroupsRequest, rows_of
from kafkalog_core.ops.transactions.transactions import TransactionsRequest, transactions
from tests.support.corpus.archives import FIXTURES
from tests.support.groups import NOW_MS, GroupLog, classic, data_log, member
from tests.support.inline import Inline

if TYPE_CHECKING:
    from pathlib import Path


def group_rows(workers: Inline | None, *paths: Path, **options: Any) -> tuple[list[Any], dict[str, object]]:
    report = Report()
    request = GroupsRequest(targets=tuple(resolve([str(path) for path in paths])), now_ms=NOW_MS, **options)
    found = [row for item in groups(request, report, workers=workers) for each in rows_of(item) for row in each.rows()]
    return found, report.summary_row()


def two_brokers(place: Path) -> tuple[Path, Path]:
    """Groups in partitions on two disks, copies of one of them, a pending offset, and damage."""
    first, second = place / "1", place / "2"
    data_log(first, "t-0", 0, 30)
    for root, count in ((first, 5), (second, 9)):
        log = GroupLog(root).group("g", classic(member("m", t=[0, 1])))
        for offset in range(count):
            log.commit(offset, partition=offset % 2).commit(offset, group="h", topic="u")
        log.commit(25, producer=7)
    file = GroupLog(second, 3).commit(4, group="damaged").commit(5, group="damaged").path / f"{0:020}.log"
    file.write_bytes(file.read_bytes()[:-3] + b"xyz")
    return first, second


@pytest.mark.parametrize("options", [{}, {"groups": ("g",)}, {"groups": ("g",), "topics": ("t",)}], ids=str)
def test_groups(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, options: dict[str, Any]) -> None:
    monkeypatch.setattr(group_states, "_PART_BYTES", 200)
    disks, workers = two_brokers(tmp_path), Inline()
    here, elsewhere = group_rows(None, *disks, **options), group_rows(workers, *disks, **options)
    assert here == elsewhere
    assert workers.pieces > 2
    assert {row["group"] for row in here[0] if "group_type" in row} == set(options.get("groups", ("damaged", "g", "h")))


def test_an_unknown_group(tmp_path: Path) -> None:
    GroupLog(tmp_path).commit(1, group="billing")
    workers = Inline()
    with pytest.raises(SelectionError, match=r"'biling' \(is billing meant\?\)"):
        group_rows(workers, tmp_path, groups=("biling",))
    assert workers.pieces == 2


def test_transactions() -> None:
    found, workers = [], Inline()
    for some in (None, workers):
        report = Report()
        request = TransactionsRequest(targets=tuple(resolve([str(FIXTURES / "demo")])), now_ms=NOW_MS)
        [result] = transactions(request, report, workers=some)
        found.append(([list(chunk.rows()) for chunk in result.chunks()], report.summary_row()))
    assert found[0] == found[1]
    assert found[0][0]
    assert workers.pieces > 2
