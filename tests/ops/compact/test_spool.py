"""Cleans one after another, the files of all but the first of which are temporary."""

from __future__ import annotations

from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import CleanError, RefusedError
from kafkalog_core.kafka.rules.cleaner_rules import cleaning_rules
from kafkalog_core.kafka.rules.releases import parse_release
from kafkalog_core.kafka.sim.cleaner.clean import next_pass
from kafkalog_core.ops.compact import simulation as spool_module
from kafkalog_core.ops.compact.simulation import TemporaryLog
from tests.support import build
from tests.support import cleaner_logs as logs
from tests.support.cleaner_carrying import Cleaner, clean_log
from tests.support.cleaner_logs import batch, lay, marker, of

if TYPE_CHECKING:
    from kafkalog_core.kafka.sim.cleaner.log import CleanLog

RULES = cleaning_rules(parse_release("4.3.1"))


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    made = tmp_path / "t-0"
    made.mkdir()
    for base in range(0, 24, 8):
        lay(directory=made, base_offset=base, content=keyed(base), mtime_s=4000 + base)
    lay(made, 24, batch((24, b"q", b"1")))
    return made


def keyed(first: int) -> bytes:
    return b"".join(batch((first + i, b"k%d" % (i % 6), b"%d" % (first + i))) for i in range(8))


def both_ways(directory: Path, **config: object) -> tuple[list[bytes], list[bytes]]:
    """All logs after cleans in temporary files, and after cleans in place."""
    settings = logs.config(**config)
    log: CleanLog = clean_log(directory, settings, RULES, 9_000_000)
    spools: list[TemporaryLog] = []
    while True:
        _, work = next_pass(log, settings, RULES, 9_000_000, force=True)
        if work is None:
            break
        spools.append(TemporaryLog().__enter__())
        log = spools[-1].carry_out(work)
    spooled = [Path(segment.path).read_bytes() for segment in log.segments]
    for spool in spools:
        spool.__exit__(None, None, None)
    cleaner = Cleaner(directory, **config)
    for _ in spools:
        cleaner.clean(9_000_000)
    return spooled, [path.read_bytes() for path in sorted(directory.glob("*.log"))]


@pytest.mark.parametrize("slots", [3, 5, 8, 100])
def test_temporary_files_are_as_good_as_real_ones(directory: Path, slots: int) -> None:
    spooled, real = both_ways(directory, memory_bytes=24 * slots, segment_bytes=900, index_interval_bytes=100)
    assert spooled == real
    assert real[-1] == batch((24, b"q", b"1"))


def test_aborted_transactions_are_known_to_the_next_clean(directory: Path) -> None:
    """What was aborted is the last that its producer wrote: it stays, empty, and its marker and index entry with it."""
    aborted = batch((0, b"x", b"1"), (1, b"a", b"99"), **of(9, 0, 0, txn=True))
    lay(directory, 0, aborted + marker(build.ABORT, 2, 9, 0) + batch((3, b"k1", b"1"), (4, b"k2", b"1")))
    (directory / f"{0:020d}.txnindex").write_bytes(build.txn_index([(9, 0, 2, 3)]))
    spooled, real = both_ways(directory, memory_bytes=24 * 5, segment_bytes=1)
    assert spooled == real
    assert real[0].startswith(build.empty_batch(0, 1, max_timestamp_ms=1001, leader_epoch=3, **of(9, 0, 0, txn=True)))  # type: ignore[arg-type]
    assert (directory / f"{0:020d}.txnindex").read_bytes() == build.txn_index([(9, 0, 2, 3)])


def test_the_files_are_gone_afterwards(directory: Path) -> None:
    log = clean_log(directory, logs.config(), RULES, 9_000_000)
    _, work = next_pass(log, logs.config(), RULES, 9_000_000)
    assert work is not None
    with TemporaryLog() as spool:
        after = spool.carry_out(work)
        assert after.checkpoint == 24
        made = Path(after.segments[0].path)
        assert made.exists()
        assert after.segments[0].mtime_ms == (4000 + 16) * 1000
        assert after.segments[0].largest_timestamp_ms == 1023
    assert not made.parent.exists()


def test_no_room_for_temporary_files(directory: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spool_module, "free_bytes", lambda path: 100)
    log = clean_log(directory, logs.config(), RULES, 9_000_000)
    _, work = next_pass(log, logs.config(), RULES, 9_000_000)
    assert work is not None
    work.build()
    with (
        TemporaryLog() as spool,
        pytest.raises(RefusedError, match=r"temporary files, but only 100 B are free. Set TMPDIR"),
    ):
        spool.carry_out(work)


def test_damage_stops_a_clean_and_says_where(directory: Path) -> None:
    path = directory / f"{8:020d}.log"
    data = bytearray(path.read_bytes())
    size = len(data) // 8
    data[2 * size + 65] ^= 0xFF
    path.write_bytes(data)
    log = clean_log(directory, logs.config(), RULES, 9_000_000)
    _, work = next_pass(log, logs.config(), RULES, 9_000_000)
    assert work is not None
    with pytest.raises(CleanError, match="checksum stored") as caught:
        work.build()
    assert (caught.value.path, caught.value.reason, caught.value.position) == (str(path), "crc-mismatch", 2 * size)
    path.write_bytes(keyed(8)[:-1])
    with pytest.raises(CleanError, match="the rest is missing") as caught:
        next_pass(log, logs.config(), RULES, 9_000_000)[1].build()  # type: ignore[union-attr]


@pytest.mark.parametrize("base", [8, 0])
def test_a_batch_that_cannot_be_inflated(directory: Path, base: int) -> None:
    """In the dirty part the map meets it, in the clean part the filter does."""
    bad = build.batch_v2([build.Record(offset=base, key=b"k", value=b"v")], codec=build.GZIP, payload=b"no gzip")
    lay(directory, base, bad)
    log = clean_log(directory, logs.config(), RULES, 9_000_000, checkpoint=8)
    _, work = next_pass(log, logs.config(), RULES, 9_000_000)
    assert work is not None
    with pytest.raises(CleanError, match="gzip") as caught:
        list(chain.from_iterable(group.chunks() for group in work.run()))
    assert (caught.value.path, caught.value.position) == (str(directory / f"{base:020d}.log"), 0)


def test_offsets_that_no_index_holds(directory: Path) -> None:
    far = 2**31 + 8
    (directory / f"{24:020d}.log").unlink()
    lay(directory, 16, batch((16, b"a", b"1")) + batch((far + 16, b"b", b"1")))
    lay(directory, far + 24, batch((far + 24, b"q", b"1")))
    config = logs.config(index_interval_bytes=0)
    _, work = next_pass(clean_log(directory, config, RULES, 9_000_000), config, RULES, 9_000_000)
    assert work is not None
    with pytest.raises(CleanError) as caught:
        list(chain.from_iterable(group.chunks() for group in work.run()))
    assert (caught.value.reason, caught.value.path) == ("offset-range", str(directory / f"{16:020d}.log"))


def test_aborted_transactions_out_of_order(directory: Path) -> None:
    """The second marker ends what the index says to end at the first one: its entry would be the same again."""
    txn = of(9, 0, 0, txn=True)
    lay(directory, 0, batch((0, b"x", b"1"), **txn) + marker(build.ABORT, 1, 9, 0) + batch((2, b"x", b"1"), **txn))
    lay(directory, 8, marker(build.ABORT, 8, 9, 0))
    (directory / f"{0:020d}.txnindex").write_bytes(build.txn_index([(9, 0, 1, 2), (9, 2, 1, 2)]))
    log = clean_log(directory, logs.config(), RULES, 9_000_000)
    _, work = next_pass(log, logs.config(), RULES, 9_000_000, force=True)
    assert work is not None
    with pytest.raises(CleanError) as caught:
        list(chain.from_iterable(group.chunks() for group in work.run()))
    assert caught.value.reason == "index-order"


def test_what_is_not_known_yet(directory: Path) -> None:
    _, work = next_pass(clean_log(directory, logs.config(), RULES, 9_000_000), logs.config(), RULES, 9_000_000)
    assert work is not None
    for name in ("end_offset", "filter", "mapped_keys"):
        with pytest.raises(ValueError, match="the offset map is not built yet"):
            getattr(work, name)
    for group in work.run():
        with pytest.raises(ValueError, match="nothing of this group is cleaned yet"):
            _ = group.indexes


def test_a_map_for_no_key_at_all(directory: Path) -> None:
    config = logs.config(memory_bytes=24)
    _, work = next_pass(clean_log(directory, config, RULES, 9_000_000), config, RULES, 9_000_000)
    assert work is not None
    with pytest.raises(CleanError) as caught:
        work.build()
    assert caught.value.reason == "map-too-small"


def test_an_index_that_is_too_small(directory: Path) -> None:
    config = logs.config(segment_index_bytes=16, index_interval_bytes=0)
    _, work = next_pass(clean_log(directory, config, RULES, 9_000_000), config, RULES, 9_000_000)
    assert work is not None
    with pytest.raises(CleanError, match=r"a larger segment\.index\.bytes") as caught:
        list(chain.from_iterable(group.chunks() for group in work.run()))
    assert caught.value.reason == "index-full"


def test_a_last_message_without_a_key_cannot_be_emptied(tmp_path: Path) -> None:
    """4.1 and later keep the last batch before the bound, and have no way to empty one of magic 1."""
    directory = tmp_path / "t-0"
    directory.mkdir()
    keyless = build.message_v1(build.Record(offset=1, key=None, value=b"v", timestamp_ms=1001))
    lay(directory, 0, build.message_v1(build.Record(offset=0, key=b"a", value=b"v", timestamp_ms=1000)) + keyless)
    lay(directory, 2, batch((2, b"q", b"1")))
    with pytest.raises(CleanError) as caught:
        Cleaner(directory).clean(9_000_000)
    assert caught.value.reason == "empty-legacy"
    assert Cleaner(directory, "3.9.1").clean(9_000_000).counts.dropped_records == {"null-key": 1}
