"""Any damage anywhere: after the excision of all places, a start truncates nothing, and every whole batch is kept."""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_core.ops.recover.excision import stage_excision
from kafkalog_core.storage.changing.changes import DryRunStage
from tests.support import build
from tests.support.excising import batch_of, excision_of, places_of, write_batches

CODECS = (build.NONE, build.GZIP, build.LZ4)


@given(data=st.data())
def test_nothing_that_is_whole_is_lost(data: st.DataObject) -> None:
    segments: dict[int, list[bytes]] = {}
    offset, sequences, is_open = 0, [0, 0, 0], [False, False]
    for count in data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4)):
        base = offset
        segments[base] = []
        for _ in range(count):
            size, codec = data.draw(st.integers(1, 4)), data.draw(st.sampled_from(CODECS))
            producer = data.draw(st.integers(-1, 2))  # two of transactions, an idempotent one, and none
            fields: dict[str, int] = {}
            if producer in {0, 1} and is_open[producer] and data.draw(st.booleans()):
                kind = data.draw(st.sampled_from((build.COMMIT, build.ABORT)))
                segments[base].append(build.txn_marker(kind, offset=offset, producer_id=producer, timestamp_ms=1000))
                is_open[producer] = False
                offset += 1
                continue
            if producer >= 0:
                fields = {"producer_id": producer, "producer_epoch": 0, "base_sequence": sequences[producer]}
                sequences[producer] += size
            if producer in {0, 1}:
                is_open[producer] = True
            batch = batch_of(2, codec, offset, offset + size - 1, is_transactional=producer in {0, 1}, **fields)
            segments[base].append(batch)
            offset += size
    with TemporaryDirectory() as directory:
        written = write_batches(Path(directory), segments)
        hit = set()
        for _ in range(data.draw(st.integers(1, 3))):
            base = data.draw(st.sampled_from(sorted(segments)))
            content = bytearray(written.log(base).read_bytes())
            start = data.draw(st.integers(0, len(content) - 1))
            bad = data.draw(st.binary(min_size=1, max_size=90))
            content[start : start + len(bad)] = bad[: len(content) - start]
            written.log(base).write_bytes(content)
            hit |= {
                (base, number)
                for number in range(len(segments[base]))
                if written.at(base, number)[0] < start + len(bad) and written.at(base, number)[1] > start
            }
        places = places_of(written.partition)
        excision = excision_of(written.partition)
        assert not excision.left
        assert (excision.problem, excision.still_truncates) == (None, None)
        whole = [
            batch
            for base, batches in segments.items()
            for number, batch in enumerate(batches)
            if (base, number) not in hit
        ]
        if any(each.is_excisable for each in places):
            stage = DryRunStage(directory)
            stage_excision(excision, stage)
            assert {change.path for change in stage.changes} >= {
                each.segment.files[0].path for each in excision.segments
            }
        new = b"".join(
            b"".join(excised.pieces()) if excised is not None else written.log(base).read_bytes()
            for base in sorted(segments)
            for excised in [next((each for each in excision.segments if each.segment.base_offset == base), None)]
        )
        assert all(batch in new for batch in whole)


def test_a_damaged_offset_that_no_index_can_hold_is_not_believed() -> None:
    """The last batch of a log, whose first bytes name an offset too far from its segment: that is not where it was."""
    segments = {0: [batch_of(2, build.NONE, 0, 1)], 2: [batch_of(2, build.NONE, 2, 3)]}
    with TemporaryDirectory() as directory:
        written = write_batches(Path(directory), segments)
        written.log(2).write_bytes(bytes((0, 0, 0, 1, 0, 0, 0, 0, 1)) + written.log(2).read_bytes()[9:])
        excision = excision_of(written.partition)
        assert not excision.left
        assert (excision.problem, excision.still_truncates) == (None, None)
