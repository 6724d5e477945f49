"""A metadata log counts as whole only if nothing in it can be missing: a lost record may be the setting that counts."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pytest

from kafkalog_core.kafka.sim.metadata_log import read_image
from kafkalog_core.storage.source import Source
from tests.support.clusters import TOPIC, config_record, topic_record, write_metadata_log

if TYPE_CHECKING:
    from collections.abc import Callable

DEMO: Final = Path(__file__).parents[2] / "fixtures" / "demo" / "__cluster_metadata-0"
FIRST, SNAPSHOT = f"{0:020}.log", f"{0:020}-{0:010}.checkpoint"


def _flip(at: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:at] + bytes([data[at] ^ 0x40]) + data[at + 1 :]


def _cut(count: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:-count]


def _zeros(count: int) -> Callable[[bytes], bytes]:
    return lambda data: data[:-count] + bytes(count)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """The metadata log of a 4.3.1 broker: a snapshot and one segment."""
    return Path(shutil.copytree(DEMO, tmp_path / DEMO.name))


def test_a_brokers_own_log_is_whole(log: Path) -> None:
    history = read_image(str(log))
    assert history.is_whole
    assert [Path(path).name for path in history.paths] == [SNAPSHOT, FIRST]


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        (FIRST, _flip(-5)),
        (FIRST, _flip(200)),
        (FIRST, _cut(7)),
        (FIRST, _zeros(40)),
        (FIRST, lambda data: data + bytes(100)),
        (SNAPSHOT, _flip(-5)),
        (SNAPSHOT, _cut(7)),
        (SNAPSHOT, lambda _data: b""),
    ],
)
def test_damage_anywhere_is_seen(log: Path, name: str, damage: Callable[[bytes], bytes]) -> None:
    (log / name).write_bytes(damage((log / name).read_bytes()))
    assert not read_image(str(log)).is_whole


def test_a_snapshot_without_its_footer(log: Path) -> None:
    """Cut at the boundary of its last batch: every batch that is left is whole."""
    data = (log / SNAPSHOT).read_bytes()
    starts, at = [], 0
    while at < len(data):
        starts.append(at)
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    (log / SNAPSHOT).write_bytes(data[: starts[-1]])
    assert not read_image(str(log)).is_whole


def test_a_segment_that_is_missing(tmp_path: Path) -> None:
    values = [topic_record("t"), *(config_record(TOPIC, "t", "retention.ms", str(number)) for number in range(5))]
    log = write_metadata_log(tmp_path, *values)
    assert read_image(str(log)).is_whole
    (log / f"{9:020}.log").write_bytes(b"")
    assert not read_image(str(log)).is_whole, "offsets 6 to 8 are missing"
    (log / f"{9:020}.log").rename(log / f"{6:020}.log")
    assert read_image(str(log)).is_whole


def test_a_log_that_begins_late_without_a_snapshot(tmp_path: Path) -> None:
    log = write_metadata_log(tmp_path, topic_record("t"))
    (log / FIRST).rename(log / f"{5:020}.log")
    assert not read_image(str(log)).is_whole


def test_each_file_is_read_once(log: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[str] = []
    real = Source.open

    def count(path: str) -> Source:
        opened.append(Path(path).name)
        return real(path)

    monkeypatch.setattr("kafkalog_core.kafka.sim.metadata_log.Source.open", count)
    assert read_image(str(log)).is_whole
    assert opened == [SNAPSHOT, FIRST]
