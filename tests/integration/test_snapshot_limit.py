"""A producer snapshot of more than a million producers: Kafka's own classes of three releases, and the simulation."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Final

import pytest

from kafkalog_core.format.checksums import crc32c
from kafkalog_core.format.layout import SNAPSHOT_ENTRY, SNAPSHOT_HEADER, SNAPSHOT_VERSION
from kafkalog_core.format.snapshot import CRC_START
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.rules.rule_table import MAX_ELEMENTS
from kafkalog_core.kafka.sim.start.snapshots import ProducerManager, SnapshotFiles, SnapshotOptions
from kafkalog_core.storage.partition import read_partition
from tests.support import jars

pytestmark = [pytest.mark.java, pytest.mark.slow]

END: Final = 100
NOW_MS: Final = 1_700_000_000_000
_SECONDS: Final = 120
_SOURCE: Final = Path(__file__).parent / "java" / "SnapshotLoader.java"


def snapshot_of(count: int) -> bytes:
    """A snapshot of producers with one batch each."""
    pack = SNAPSHOT_ENTRY.struct.pack
    content = bytearray(SNAPSHOT_HEADER.size)
    for producer_id in range(count):
        content += pack(producer_id, 0, 0, 5, 0, NOW_MS, 0, -1)
    SNAPSHOT_HEADER.struct.pack_into(content, 0, SNAPSHOT_VERSION, 0, count)
    crc = crc32c(memoryview(content)[CRC_START:])
    SNAPSHOT_HEADER.struct.pack_into(content, 0, SNAPSHOT_VERSION, crc, count)
    return bytes(content)


@pytest.mark.parametrize("version", ["4.2.2", jars.KAFKA_VERSION, jars.NEWEST])
def test_a_large_snapshot_is_corrupt_to_the_releases_that_limit_arrays(version: str, tmp_path: Path) -> None:
    places = []
    for count in (MAX_ELEMENTS, MAX_ELEMENTS + 1):
        place = tmp_path / str(count) / "t-0"
        place.mkdir(parents=True)
        (place / f"{END:020d}.snapshot").write_bytes(snapshot_of(count))
        (place / f"{END // 2:020d}.snapshot").write_bytes(snapshot_of(1))
        places.append(place)
    ours = [loaded(place, version) for place in places]
    assert ours == kafkas(places, version)
    assert (ours[1][0] == 1) is (version != jars.KAFKA_VERSION)


def loaded(place: Path, version: str) -> tuple[int, int, int]:
    """How many producers the simulation loads, up to which offset, and how many snapshots are left."""
    files = SnapshotFiles.of(read_partition(str(place)))
    options = SnapshotOptions.of_release(parse_release(version), now_ms=NOW_MS, expiration_ms=86_400_000)
    manager = ProducerManager(files, options)
    manager.truncate_and_reload(0, END)
    return sum(1 for _ in manager.states.snapshot_entries(options.style)), manager.end_offset, len(files)


def kafkas(places: list[Path], version: str) -> list[tuple[int, ...]]:
    """The same of Kafka's ProducerStateManager."""
    java = shutil.which("java") or "java"
    options = ["-Xmx1g", *jars.QUICK, "-Dorg.slf4j.simpleLogger.defaultLogLevel=error"]
    command = [java, *options, "-cp", f"{jars.fetch(version)}/*", str(_SOURCE), str(END), str(NOW_MS)]
    done = subprocess.run([*command, *map(str, places)], capture_output=True, text=True, check=True, timeout=_SECONDS)
    return [tuple(map(int, line.split())) for line in done.stdout.splitlines()]
