"""Loads of coordinators by release: the cases, as real coordinators loaded them, and what no broker can load."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.kafka.rules.coordinator_rules import coordinator_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.start.coordinators import GROUPS_TOPIC, load_coordinator
from kafkalog_core.text import count_of
from kafkalog_core.topics.transactions import TRANSACTIONS_TOPIC
from tests.support.coordinator_cases import GROUP_CASES, TRANSACTION_CASES
from tests.support.groups import GroupLog

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.coordinator_rules import CoordinatorRules
    from kafkalog_core.kafka.sim.start.coordinators import CoordinatorLoad

CASES = {GROUPS_TOPIC: GROUP_CASES, TRANSACTIONS_TOPIC: TRANSACTION_CASES}
TABLE = Path(__file__).parents[2] / "integration" / "coordinator_table.txt"
CELL = re.compile(r"(?P<what>loads|stops)(?: at (?P<offset>\d+))?(?P<groups>(?:; .*)?)")


def table() -> list[tuple[str, int, str, str]]:
    """Topic, partition, release and cell of the table that real brokers filled."""
    found = []
    for paragraph in TABLE.read_text().split("\n\n")[3:]:
        head, *lines = paragraph.strip().splitlines()
        topic, _, number = head.partition(":")[0].rpartition("-")
        for line in lines:
            releases, _, cell = line.strip().partition(": ")
            found += [(topic, int(number), release, cell) for release in releases.split(", ")]
    return found


def rules_of(release: str) -> CoordinatorRules:
    """The rules of a release."""
    rules = coordinator_rules(parse_release(release))
    assert rules is not None
    return rules


def load(tmp_path: Path, topic: str, number: int, *releases: str, **options: int) -> list[CoordinatorLoad]:
    """What releases make of a case."""
    log = GroupLog(tmp_path, number)
    list(CASES[topic].values())[number](log)
    return load_coordinator(topic, str(log.path), [rules_of(each) for each in releases], **options)


@pytest.mark.parametrize(("topic", "number"), [(topic, n) for topic, cases in CASES.items() for n in range(len(cases))])
def test_each_release_loads_as_its_real_coordinator_did(tmp_path: Path, topic: str, number: int) -> None:
    rows = [(release, cell) for of, n, release, cell in table() if (of, n) == (topic, number)]
    assert len(rows) >= 8
    for (release, cell), loaded in zip(rows, load(tmp_path, topic, number, *(row[0] for row in rows)), strict=True):
        seen = CELL.fullmatch(cell)
        assert seen is not None, cell
        stops = loaded.stop is not None and not loaded.stop.is_silent
        assert stops == (seen["what"] == "stops"), (release, cell, loaded)
        if seen["offset"] is not None:
            assert loaded.stop is not None
            assert loaded.stop.offset == int(seen["offset"])
        if topic == GROUPS_TOPIC and not stops:
            assert ", ".join(sorted(loaded.names)) == seen["groups"].removeprefix("; "), (release, cell)
        if topic != GROUPS_TOPIC:
            assert count_of(len(loaded.names), "transactional id") == seen["groups"].removeprefix("; "), (release, cell)


def case(text: str) -> int:
    """The number of a case by a part of its name."""
    return next(number for number, name in enumerate(GROUP_CASES) if text in name)


@pytest.mark.parametrize(
    ("text", "refuses", "loads"),
    [("20254", "4.2.0", "4.2.1"), ("19862", "4.1.1", "4.1.2"), ("19862", "4.0.1", "4.0.2"), ("19862", "4.1", "4.2")],
)
def test_a_bug_fix_loads_what_the_one_before_refuses(tmp_path: Path, text: str, refuses: str, loads: str) -> None:
    before, after = load(tmp_path, GROUPS_TOPIC, case(text), refuses, loads)
    assert before.served == "none"
    assert before.stop is not None
    assert before.forgotten
    assert after.is_whole


def test_no_release_loads_a_group_after_some_downgrades(tmp_path: Path) -> None:
    number = case("a consumer group after its downgrade")
    for loaded in load(tmp_path, GROUPS_TOPIC, number, "4.0", "4.1", "4.2", "4.3", "4.4"):
        assert loaded.stop is not None
        assert "is not a consumer group: here it is a classic group" in loaded.stop.reason
        assert "(ConsumerGroupMemberMetadata)" in loaded.stop.record


def test_a_failed_load_leaves_a_partition_unserved_or_empty(tmp_path: Path) -> None:
    old, new = load(tmp_path, GROUPS_TOPIC, case("a commit of version 5"), "3.9.2", "4.3.1")
    assert (old.served, new.served) == ("empty", "none")
    assert old.forgotten == new.forgotten
    assert {name.partition("-")[0] for name in new.forgotten} == {"g", "later"}
    assert not old.names
    assert not new.names


def test_unknown_records_are_skipped_or_end_the_load(tmp_path: Path) -> None:
    number = case("a streams group")
    strict, tolerant, backport = load(tmp_path, GROUPS_TOPIC, number, "3.4.0", "3.9.2", "3.4.1")
    assert strict.stop is not None
    assert tolerant.stop is None
    assert sum(tolerant.skipped.values()) == 3
    assert any("StreamsGroupMetadata" in what for what in tolerant.skipped)
    assert [name.partition("-")[0] for name in tolerant.forgotten] == ["streams"]
    assert backport == tolerant


def test_transactions_after_an_unknown_version_are_not_known(tmp_path: Path) -> None:
    names = list(TRANSACTION_CASES)
    number = names.index("a transaction of version 2")
    before, after = load(tmp_path, TRANSACTIONS_TOPIC, number, "4.2.2", "4.3.1")
    assert (before.served, before.names, before.forgotten) == ("before", {"one"}, {"two", "three"})
    assert (after.served, after.names, after.forgotten) == ("all", {"one", "three"}, {"two"})


def test_only_what_the_start_keeps_is_loaded(tmp_path: Path) -> None:
    number = case("a commit of version 5")
    assert load(tmp_path / "end", GROUPS_TOPIC, number, "4.3.1", end_offset=1)[0].is_whole
    assert load(tmp_path / "start", GROUPS_TOPIC, number, "4.3.1", start_offset=2)[0].names == frozenset()


def test_damage_ends_the_load_where_it_is(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(1)
    log.add(b"\xff" * 100)
    log.commit(2, group="after")
    for loaded in load_coordinator(GROUPS_TOPIC, str(log.path), [rules_of("4.3")]):
        assert loaded.stop is not None
        assert loaded.stop.position is not None
        assert loaded.stop.position > 0
        assert f"byte {loaded.stop.position}" in loaded.stop.text
        assert loaded.forgotten == {"g", "after"}


def test_a_length_beyond_the_file_ends_the_load_without_an_error(tmp_path: Path) -> None:
    """The table has what releases made of it: they finish the load, and know the groups before the place alone."""
    log = GroupLog(tmp_path).commit(1)
    log.add(bytes(8) + b"\x5a\0\0\0" + bytes(80))
    log.commit(2, group="after")
    (loaded,) = load_coordinator(GROUPS_TOPIC, str(log.path), [rules_of("4.3")])
    assert loaded.stop is not None
    assert loaded.stop.is_silent
    assert "gives 1509949440 bytes, and the file has" in loaded.stop.reason
    assert (loaded.served, loaded.names, loaded.forgotten) == ("before", {"g"}, {"after"})


def test_no_coordinator_computes_a_checksum(tmp_path: Path) -> None:
    """4.3.1 loaded all groups, and all transactional ids, of partitions with a wrong checksum of a batch."""
    log = GroupLog(tmp_path).commit(1)
    log.commit(2, group="after")
    (file,) = log.path.glob("*.log")
    data = bytearray(file.read_bytes())
    data[17] ^= 1
    file.write_bytes(data)
    (loaded,) = load_coordinator(GROUPS_TOPIC, str(log.path), [rules_of("4.3")])
    assert loaded.is_whole
    assert loaded.names == {"g", "after"}


def test_damage_that_the_start_truncates_does_not_end_the_load(tmp_path: Path) -> None:
    log = GroupLog(tmp_path).commit(1)
    (file,) = log.path.glob("*.log")
    sizes = {0: file.stat().st_size}
    file.write_bytes(file.read_bytes() + b"\0\0\0\0\0\0\0\1" + bytes(100))
    rules = [rules_of("4.3")]
    (before,) = load_coordinator(GROUPS_TOPIC, str(log.path), rules)
    (after,) = load_coordinator(GROUPS_TOPIC, str(log.path), rules, end_offset=1, sizes=sizes)
    assert before.stop is not None
    assert after.is_whole
    assert after.names == {"g"}


def test_offsets_that_go_back_do_not_end_the_load(tmp_path: Path) -> None:
    """4.3.1 knew all transactional ids of a log in which one batch had another base offset: one read has them all."""
    log = GroupLog(tmp_path).commit(1)
    (file,) = log.path.glob("*.log")
    at = file.stat().st_size
    log.commit(2, group="moved")
    log.commit(3, group="after")
    data = bytearray(file.read_bytes())
    data[at] ^= 0xFF  # of the base offset, which no checksum has
    file.write_bytes(data)
    (loaded,) = load_coordinator(GROUPS_TOPIC, str(log.path), [rules_of("4.3")])
    assert loaded.is_whole
    assert loaded.names >= {"g", "after"}
