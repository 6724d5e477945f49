"""Wrappers of magic 0 and 1 written again, as the releases did it."""

from __future__ import annotations

import pytest

from kafkalog_core.format import compression, decode, run_filter, skimpy_offset_map
from kafkalog_core.format.decompression import decompress
from kafkalog_core.format.run_filter import OUTCOME_REBUILT, OUTCOME_VERBATIM, Filtered, FilterRules, RunFilter
from kafkalog_core.format.skimpy_offset_map import ENTRY_BYTES, OffsetMap
from tests.support.build import GZIP, LZ4, Record, message_v0, message_v1, wrapper_v0, wrapper_v1
from tests.support.twins import TWINS, twin, walked


@pytest.fixture(params=TWINS)
def each_twin(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    for module in (compression, run_filter, decode, skimpy_offset_map):
        monkeypatch.setattr(module, "kernels", twin(request.param))
    return str(request.param)


def old_rules(wrappers: str, **fields: int) -> FilterRules:
    return FilterRules(
        keeps_past_latest=False,
        uses_horizons=False,
        converts_legacy=False,
        wrappers=wrappers,
        **fields,  # type: ignore[arg-type]
    )


def cleaned(log: bytes, rules: FilterRules, newest: dict[bytes, int]) -> tuple[bytes, Filtered]:
    offsets = OffsetMap(100 * ENTRY_BYTES)
    for key, offset in newest.items():
        offsets.put(key, offset)
    runs = RunFilter(offsets, rules, now_ms=0, delete_retention_ms=0)
    result = runs.filter(memoryview(log), walked(log), retains_legacy=True)
    assert result.damage is None
    return bytes(result.data), result


def parts(entry: bytes) -> tuple[dict[str, int], bytes]:
    """Fields of the wrapper, and the set inside."""
    row = walked(entry).row(0)
    payload = entry[row["payload_start"] : row["payload_end"]]
    return row, bytes(decompress(row["codec"], payload, magic=row["format"], limit_bytes=2**20))


RECORDS = [Record(offset=10 + i, timestamp_ms=500 - i, key=b"k%d" % i, value=b"v%d" % i) for i in range(4)]
DROPPED = {b"k1": 99, b"k3": 99}


def test_0_9_writes_all_wrappers_again_with_absolute_offsets(each_twin: str) -> None:
    log = wrapper_v0(RECORDS, codec=GZIP)
    data, result = cleaned(log, old_rules("absolute"), DROPPED)
    row, inside = parts(data)
    assert (row["format"], row["last_offset"], result.kept[0]) == (0, 12, 2)
    assert inside == message_v0(RECORDS[0]) + message_v0(RECORDS[2])
    data, result = cleaned(log, old_rules("absolute"), {})
    assert result.outcomes[0] == OUTCOME_REBUILT
    assert parts(data)[1] == b"".join(map(message_v0, RECORDS))


def test_0_8_leaves_messages_that_stand_by_themselves(each_twin: str) -> None:
    before, behind = message_v0(Record(offset=3, key=b"x")), message_v0(Record(offset=20, key=b"y"))
    log = before + wrapper_v0(RECORDS, codec=GZIP) + behind
    data, result = cleaned(log, old_rules("flat"), {b"k1": 99})
    kept = [message_v0(record) for record in (RECORDS[0], RECORDS[2], RECORDS[3])]
    assert data == before + b"".join(kept) + behind
    assert list(result.sizes) == [len(before), sum(map(len, kept)), len(behind)]
    assert result.batches.column("last_offset").tolist() == [3, 10, 12, 13, 20]
    assert result.batches.column("position").tolist()[-1] == len(data) - len(behind)
    assert (list(result.first_kept), list(result.last_kept)) == ([3, 10, 20], [3, 13, 20])


def test_many_flat_messages_need_more_rows_than_the_run_has(each_twin: str) -> None:
    records = [Record(offset=i, key=b"%d" % i, value=b"v") for i in range(300)]
    log = b"".join(wrapper_v0(records[i : i + 100], codec=LZ4) for i in (0, 100, 200))
    data, result = cleaned(log, old_rules("flat"), {})
    assert data == b"".join(map(message_v0, records))
    assert result.batches.column("base_offset").tolist() == list(range(300))


@pytest.mark.parametrize("append_time", [None, 7777])
def test_0_10_copies_messages_behind_relative_offsets(each_twin: str, append_time: int | None) -> None:
    log = wrapper_v1(RECORDS, codec=GZIP, log_append_time_ms=append_time)
    data, result = cleaned(log, old_rules("relative"), DROPPED)
    row, inside = parts(data)
    assert (row["last_offset"], row["max_timestamp_ms"]) == (12, append_time or 500)
    assert row["attributes"] == GZIP | (0x08 if append_time else 0)
    stays = [Record(offset=i, timestamp_ms=500 - i, key=b"k%d" % i, value=b"v%d" % i) for i in (0, 2)]
    assert inside == b"".join(map(message_v1, stays))
    data, result = cleaned(log, old_rules("relative"), {})
    assert (data, result.outcomes[0]) == (log, OUTCOME_VERBATIM)


def test_2_8_mends_wrappers_of_another_magic_than_their_messages(each_twin: str) -> None:
    inner = b"".join(map(message_v1, RECORDS))
    log = wrapper_v0(RECORDS, codec=GZIP, inner=inner)
    data, result = cleaned(log, old_rules("filter"), {})
    assert result.outcomes[0] == OUTCOME_REBUILT
    assert parts(data)[1] == b"".join(map(message_v0, RECORDS))
    same = wrapper_v0(RECORDS, codec=GZIP)
    assert cleaned(same, old_rules("filter"), {})[0] == same


def test_2_8_builds_messages_of_magic_1_anew(each_twin: str) -> None:
    log = wrapper_v1(RECORDS, codec=LZ4, log_append_time_ms=7777)
    data, _ = cleaned(log, old_rules("filter"), DROPPED)
    row, inside = parts(data)
    assert (row["attributes"], row["max_timestamp_ms"], row["last_offset"]) == (LZ4 | 0x08, 7777, 12)
    stays = [Record(offset=i, timestamp_ms=7777, key=b"k%d" % i, value=b"v%d" % i, attributes=0x08) for i in (0, 2)]
    assert inside == b"".join(map(message_v1, stays))


def test_what_is_copied_is_not_looked_at(each_twin: str) -> None:
    """Messages whose offsets go back: releases before 0.10.2 write them as they are, later ones refuse to."""
    records = [RECORDS[0], RECORDS[3], RECORDS[2]]
    log = wrapper_v0(records, codec=GZIP, offset=13)
    data, _ = cleaned(log, old_rules("absolute"), {b"k0": 99})
    assert parts(data)[1] == message_v0(RECORDS[3]) + message_v0(RECORDS[2])
    offsets = OffsetMap(100 * ENTRY_BYTES)
    offsets.put(b"k0", 99)
    runs = RunFilter(offsets, old_rules("filter"), now_ms=0, delete_retention_ms=0)
    damage = runs.filter(memoryview(log), walked(log), retains_legacy=True).damage
    assert damage is not None
    assert damage.reason == "record-order"
