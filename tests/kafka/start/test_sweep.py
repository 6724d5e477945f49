"""Files that a broker sweeps away and puts in place before it opens a segment."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.start.sweep import Swept, sweep
from kafkalog_core.storage.partition import read_partition
from tests.support.truncating import batch, write_log

if TYPE_CHECKING:
    from pathlib import Path


def swept(directory: Path, kafka: str = "4.3") -> Swept:
    return sweep(read_partition(str(directory)).files, rules=rules_of(parse_release(kafka)))


def short(result: Swept) -> tuple[list[str], list[str]]:
    """Names that are left, with the file whose bytes they have where that is another; names that go."""
    left = []
    for file in result.files:
        source = file.path.rpartition("/")[2]
        name = file.name.raw
        left.append(_short(name) if source == name else f"{_short(name)}<-{_short(source)}")
    return [name for name in left if name[0].isdigit()], sorted(_short(file.name.raw) for file, _ in result.removed)


def _short(name: str) -> str:
    stem, dot, rest = name.partition(".")
    return f"{int(stem)}{dot}{rest}" if stem.isdigit() else name


def put(directory: Path, name: str, data: bytes = b"") -> None:
    stem, _, rest = name.partition(".")
    (directory / f"{int(stem):020d}.{rest}").write_bytes(data)


def plain(tmp_path: Path) -> Path:
    return write_log(tmp_path / "t-0", {0: [(0, 9)], 10: [(10, 19)], 20: [(20, 29)]})


def test_what_waits_for_its_deletion_goes_whatever_it_is(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    put(directory, "5.log.deleted")
    (directory / "notes.deleted").touch()
    (directory / f"{0:020d}-{0:010d}.checkpoint.deleted").touch()
    left, gone = short(swept(directory))
    assert gone == ["5.log.deleted", "notes.deleted"]
    assert len(left) == 9 + 1


def test_a_replacement_takes_the_place_of_what_its_offsets_cover(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    put(directory, "0.log.swap", batch(0, 14))
    put(directory, "0.index.swap")
    put(directory, "10.snapshot")
    put(directory, "10.bak")
    left, gone = short(swept(directory))
    assert left == ["0.index<-0.index.swap", "0.log<-0.log.swap", "20.index", "20.log", "20.timeindex"]
    assert gone == ["0.index", "0.log", "0.timeindex", "10.bak", "10.index", "10.log", "10.snapshot", "10.timeindex"]
    assert swept(directory).zero_indexes == frozenset()


def test_without_its_index_it_gets_zeros(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    put(directory, "10.log.swap", batch(10, 19))
    assert swept(directory).zero_indexes == {10}


def test_an_interrupted_split_is_given_up(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    put(directory, "20.log.swap", batch(20, 29))
    put(directory, "0.log.swap", batch(0, 9))
    put(directory, "10.log.cleaned")
    left, gone = short(swept(directory))
    assert [name for name in left if "swap" in name] == ["0.log<-0.log.swap"]
    assert {"10.log.cleaned", "20.log.swap"} <= set(gone)


def test_index_replacements_alone_are_trusted(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    put(directory, "10.index.swap", bytes(8))
    left, gone = short(swept(directory))
    assert "10.index<-10.index.swap" in left
    assert gone == ["10.index"]


def test_an_empty_replacement_covers_nothing(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    put(directory, "10.log.swap")
    left, gone = short(swept(directory))
    assert "10.log<-10.log.swap" in left
    assert gone == ["10.log"]


def test_what_stops_it(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    put(directory, "10.log.swap", batch(10, 14) + bytes(50))
    result = swept(directory)
    assert "cannot be read at byte" in (result.problem or "")
    assert "not simulated" in (swept(directory, "2.4").problem or "")
    (directory / "x.cleaned").touch()
    assert "does not start with a number" in (swept(directory).problem or "")


def test_up_to_2_8_replacements_wait_until_the_segments_are_open(tmp_path: Path) -> None:
    """The indexes of the segments that they are to replace go at once."""
    directory = plain(tmp_path)
    put(directory, "10.log.swap", batch(10, 14))
    put(directory, "10.index.swap")
    put(directory, "20.timeindex.swap")
    (directory / "notes.swap").touch()
    result = swept(directory, "2.8")
    assert result.problem is None
    assert [_short(file.name.raw) for file in result.waiting] == ["10.log.swap"]
    left, gone = short(result)
    assert gone == ["10.index", "10.timeindex", "20.index", "20.timeindex"]
    assert left == ["0.index", "0.log", "0.timeindex", "10.index.swap", "10.log", "20.log", "20.timeindex.swap"]


def test_up_to_2_8_an_incomplete_one_goes_with_its_indexes(tmp_path: Path) -> None:
    directory = plain(tmp_path)
    for name in ("0.log.swap", "20.log.swap", "20.index.swap", "20.log.cleaned"):
        put(directory, name)
    result = swept(directory, "2.8")
    assert [_short(file.name.raw) for file in result.waiting] == ["0.log.swap"]
    names = ["0.index", "0.timeindex", "20.index", "20.index.swap", "20.log.cleaned", "20.log.swap", "20.timeindex"]
    assert short(result)[1] == names
