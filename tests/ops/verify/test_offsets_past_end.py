"""Offsets that groups committed past the end of a log: verify names them, and the lag is that of Kafka's own tool."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.main import cli
from kafkalog_core.engine.targets import resolve
from kafkalog_core.kafka.sim.group_states import read_groups
from kafkalog_core.ops.verify import offsets_past_end
from kafkalog_core.ops.verify.engine import verify_across
from tests.support.build import ABORT, COMMIT
from tests.support.committed import CommitLog, committed_past_end
from tests.support.serving import serving

CODE = "partition.committed-past-end"


def findings(*arguments: object) -> list[dict[str, object]]:
    given = ["verify", *map(str, arguments), "--output", "ndjson"]
    rows = map(json.loads, CliRunner().invoke(cli, given, catch_exceptions=False).stdout.splitlines())
    return [row for row in rows if row["type"] == "finding" and row["code"] == CODE]


def test_verify_names_it(tmp_path: Path) -> None:
    log_dir, described = committed_past_end(tmp_path)
    (finding,) = findings(log_dir)
    group, (topic, partition, committed, end, lag) = max(described.items())
    assert (finding["topic"], finding["partition"], finding["offset"]) == (topic, partition, end)
    assert (finding["severity"], finding["file"]) == ("warning", f"{log_dir}/{topic}-{partition}")
    assert finding["message"] == (
        f"The log ends at offset {end}, but group {group} has committed offset {committed} (a lag of {lag}), and "
        f"{len(described) - 1} other groups past it too."
    )


def test_an_offset_at_the_end_is_not_past_it(tmp_path: Path) -> None:
    """The copy of another log directory is longer; and a log that is not among what was named is not compared."""
    log_dir, _ = committed_past_end(tmp_path)
    other = tmp_path / "other"
    other.mkdir()
    shutil.copy(log_dir / "meta.properties", other)
    shutil.copytree(log_dir / "cut-0", other / "cut-0")
    log = other / "cut-0" / f"{0:020}.log"
    batch = bytearray(log.read_bytes()[-70:])
    start = batch.rindex((82).to_bytes(8, "big"))
    last = bytes(batch[start:])
    for offset in range(83, 100):  # the checksum does not cover the base offset
        log.write_bytes(log.read_bytes() + offset.to_bytes(8, "big") + last[8:])
    assert findings(log_dir, other) == []
    assert findings(log_dir / "__consumer_offsets-0") == []
    assert findings(log_dir, "--level", "headers") == []


@pytest.mark.parametrize("names", [("cut-0", "__consumer_offsets-0"), ("",)])
def test_partitions_that_other_calls_verified(tmp_path: Path, names: tuple[str, ...]) -> None:
    log_dir, _ = committed_past_end(tmp_path)
    targets = resolve([str(log_dir / name) for name in names])
    assert CODE in {finding.code for verdict in verify_across(targets) for finding in verdict.findings}


def test_the_lag_is_that_of_kafkas_tool(tmp_path: Path) -> None:
    log_dir, described = committed_past_end(tmp_path)
    with serving(log_dir) as broker:
        lags = broker.status.lags(described, 100)
    assert {group: (row.topic, row.partition, row.offset, row.lag) for group, (row,) in lags.items()} == {
        group: (topic, partition, committed, lag) for group, (topic, partition, committed, _, lag) in described.items()
    }


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["a", "b"]),
            st.sampled_from([None, 1, 9, 11, 12]),
            st.sampled_from([None, None, 1, 2]),
            st.sampled_from([None, None, COMMIT, ABORT]),
        ),
        max_size=12,
    )
)
def test_the_records_that_are_not_decoded_do_not_matter(
    steps: list[tuple[str, int | None, int | None, int | None]],
) -> None:
    """Plain commits, deletions and transactions of two groups, of a log that ends at offset 10."""
    with tempfile.TemporaryDirectory() as place:
        log = CommitLog(Path(place))
        for group, offset, producer, ends in steps:
            log.commit(offset, group=group, producer=producer)
            if producer is not None and ends is not None:
                log.end(ends, producer)
        paths = [str(log.path)] if steps else []
        found, _ = read_groups(paths)
        last = {group: of[("t", 0)].offset for group, of in found.offsets.offsets.items() if ("t", 0) in of}
        past = [(offset, group) for group, offset in last.items() if offset > 10]
        said = [each for _, each in offsets_past_end.committed_past_end(paths, {("t", 0): (10, "p")}, 1 << 20)]
    assert len(said) == bool(past)
    if past:
        assert f"group {max(past)[1]} has committed offset {max(past)[0]} (" in said[0].message
