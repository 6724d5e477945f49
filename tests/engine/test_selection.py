"""Which partitions a selection takes, and what is said when it takes none."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafkalog_core.engine.report import Report
from kafkalog_core.engine.selection import Selection, describe_topics
from kafkalog_core.engine.targets import LogDirTarget, Target, resolve
from kafkalog_core.errors import SelectionError
from kafkalog_core.ops.dump.dump import dump
from kafkalog_core.ops.dump.runs import DumpRequest

LOG = "00000000000000000000.log"


def partition(path: Path) -> None:
    path.mkdir(parents=True)
    (path / LOG).write_bytes(b"\0" * 8)


@pytest.fixture
def log_dir(tmp_path: Path) -> Path:
    """A broker's log directory with topics `orders` (0, 2, 10) and `pay.ments` (0)."""
    home = tmp_path / "data"
    for name in ("orders-10", "orders-2", "orders-0", "pay.ments-0"):
        partition(home / name)
    (home / "meta.properties").touch()
    return home


def one(path: Path, **selection: object) -> Target:
    (target,) = resolve([str(path)], Selection(**selection))  # type: ignore[arg-type]
    return target


def names(target: Target) -> list[str]:
    assert isinstance(target, LogDirTarget)
    return [place.name.raw for place in target.partitions]


def test_nothing_asked_for_takes_everything() -> None:
    assert Selection().is_everything
    assert Selection().takes("t", 0)
    assert Selection().takes(None, None)
    assert not Selection(partitions=(0,)).is_everything
    assert not Selection(topic_regex="").is_everything


def test_many_partitions_are_said_shortly() -> None:
    assert describe_topics([("t", number) for number in range(0, 14, 2)]) == "there are t (0, 2, 4, 6, 8 and 2 more)"
    assert describe_topics([(None, None)]) == "no partition was named"


@pytest.mark.parametrize(
    ("selection", "expected"),
    [
        ({"topics": ("orders",)}, ["orders-0", "orders-2", "orders-10"]),
        ({"topics": ("ord*", "pay*")}, ["orders-0", "orders-2", "orders-10", "pay.ments-0"]),
        ({"topics": ("*",), "excludes": ("ord*",)}, ["pay.ments-0"]),
        ({"excludes": ("pay*",)}, ["orders-0", "orders-2", "orders-10"]),
        ({"topic_regex": r"pay\..*"}, ["pay.ments-0"]),
        ({"topic_regex": "orders|x"}, ["orders-0", "orders-2", "orders-10"]),
        ({"partitions": (0,)}, ["orders-0", "pay.ments-0"]),
        ({"partitions": (2, 10, 77), "topics": ("orders",)}, ["orders-2", "orders-10"]),
    ],
)
def test_selections(log_dir: Path, selection: dict[str, object], expected: list[str]) -> None:
    target = one(log_dir, **selection)
    assert names(target) == expected
    assert isinstance(target, LogDirTarget)
    assert not target.is_whole
    assert len(target.log_dir.partitions) == 4


@pytest.mark.parametrize(
    "selection", [{"topics": ("Orders",)}, {"topic_regex": "order"}, {"partitions": (1,)}, {"excludes": ("*",)}]
)
def test_a_selection_that_matches_nothing(log_dir: Path, selection: dict[str, object]) -> None:
    with pytest.raises(SelectionError, match=r"there are orders \(0, 2, 10\), pay.ments \(0\)$"):
        one(log_dir, **selection)


def test_a_selection_names_what_was_asked_for_and_a_few_of_what_there_is(tmp_path: Path) -> None:
    for number in range(7):
        for partition_number in (0, 1, 2, 4):
            partition(tmp_path / f"t{number}-{partition_number}")
    with pytest.raises(SelectionError) as caught:
        one(tmp_path, topics=("x",), topic_regex="y", excludes=("z",), partitions=(3,))
    assert str(caught.value) == (
        "no partition matches topic 'x', topic pattern 'y', a topic other than 'z', partition 3; there are "
        "t0 (0-2, 4), t1 (0-2, 4), t2 (0-2, 4), t3 (0-2, 4), t4 (0-2, 4) and 2 more topics"
    )


def test_a_selection_applies_to_partitions_and_files_too(log_dir: Path) -> None:
    paths = [f"{log_dir}/orders-2", f"{log_dir}/pay.ments-0", f"{log_dir}/orders-0/{LOG}", f"{log_dir}/meta.properties"]
    chosen = resolve(paths, Selection(topics=("orders",)))
    assert [Path(target.path).name for target in chosen] == ["orders-2", LOG]
    without = resolve(paths, Selection(excludes=("orders",)))
    assert {Path(target.path).name for target in without} == {"pay.ments-0", "meta.properties"}
    with pytest.raises(SelectionError, match=r"there are orders \(2\)"):
        resolve(paths[:1], Selection(partitions=(0,)))


def test_findings_that_matter_to_the_chosen_partitions_stay(log_dir: Path) -> None:
    partition(log_dir / "orders-02")  # a broker takes it for partition 2
    partition(log_dir / "pay.ments-00")
    (log_dir / "lost+found").mkdir()
    (log_dir / "notes.txt").touch()
    (log_dir / "replication-offset-checkpoint").symlink_to("missing")
    target = one(log_dir, topics=("orders",), partitions=(2,))
    assert isinstance(target, LogDirTarget)
    assert not target.is_whole
    assert [(finding.code, Path(finding.path).name) for finding in target.log_dir.findings] == [
        ("dir.unclean", ".kafka_cleanshutdown"),
        ("dir.odd-name", "orders-02"),
        ("dir.duplicate-partition", "orders-2"),
        ("file.broken-link", "replication-offset-checkpoint"),
    ]


def test_a_partition_whose_directory_is_not_there_is_selected_too(log_dir: Path) -> None:
    (log_dir / "lost-0").symlink_to("missing")
    target = one(log_dir, topics=("lost",))
    assert isinstance(target, LogDirTarget)
    assert not target.partitions
    assert [finding.code for finding in target.log_dir.findings] == ["dir.unclean", "dir.no-directory"]


def test_findings_of_a_log_directory_are_said_with_a_selection_too(log_dir: Path) -> None:
    partition(log_dir / "orders-02")
    for topic, status in (("orders", 4), ("pay.ments", 0)):
        report = Report()
        targets = tuple(resolve([str(log_dir)], Selection(topics=(topic,))))
        list(dump(DumpRequest(targets=targets, level="segments"), report))
        assert report.codes["dir.duplicate-partition"] == (1 if status else 0)


def test_a_log_directory_of_which_nothing_is_selected_is_left_out(log_dir: Path, tmp_path: Path) -> None:
    partition(tmp_path / "other" / "t-0")
    (target,) = resolve([str(log_dir), str(tmp_path / "other")], Selection(topics=("t",)))
    assert target.path == str(tmp_path / "other")


def test_a_selection_where_there_is_no_partition(tmp_path: Path) -> None:
    (tmp_path / "meta.properties").touch()
    with pytest.raises(SelectionError, match="no partition was named"):
        one(tmp_path / "meta.properties", topics=("t",))


def test_a_pattern_that_is_no_regular_expression(log_dir: Path) -> None:
    with pytest.raises(SelectionError, match="is not a regular expression"):
        one(log_dir, topic_regex="(")
