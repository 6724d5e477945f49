"""The last line of `verify` never contradicts its own figures, whatever was found where."""

from __future__ import annotations

import re
from collections import Counter
from typing import TYPE_CHECKING, Final

from hypothesis import given
from hypothesis import strategies as st

from kafkalog_cli.render.summary_line import summary_sentence, verdict_sentence
from kafkalog_core.engine.report import Report
from kafkalog_core.findings import DENIED, Finding
from kafkalog_core.ops.verify.engine import count, state_of
from kafkalog_core.ops.verify.verdict import PartitionVerdict, PlaceVerdict, SegmentVerdict

if TYPE_CHECKING:
    from collections.abc import Mapping

CODES: Final = ("log.zero-tail", "batch.crc-mismatch", "checkpoint.missing", DENIED)
findings = st.lists(
    st.builds(
        Finding,
        code=st.sampled_from(CODES),
        severity=st.sampled_from(("info", "warning", "error")),
        path=st.just("/d/0.log"),
        message=st.just("so"),
    ),
    max_size=3,
).map(tuple)


@st.composite
def segments(draw: st.DrawFn) -> SegmentVerdict:
    size_bytes, is_unread = draw(st.integers(0, 3000)), draw(st.booleans())
    damage = draw(st.lists(st.tuples(st.integers(0, 9), st.integers(0, 90)), max_size=2).map(tuple))
    return SegmentVerdict(
        path="/d/t-0/0.log",
        base_offset=0,
        size_bytes=size_bytes,
        is_last=True,
        mtime_ms=0,
        batches=0 if is_unread else 2,
        records=0 if is_unread else 5,
        first_offset=None,
        last_offset=None,
        first_timestamp_ms=None,
        max_timestamp_ms=None,
        formats=(),
        epochs=(),
        is_thinned=False,
        gaps=(),
        gap_count=0,
        damage=() if is_unread else damage,
        lost_offsets=(),
        findings=(),
        is_unread=is_unread,
    )


partitions = st.builds(
    PartitionVerdict,
    path=st.just("/d/t-0"),
    topic=st.just("t"),
    partition=st.just(0),
    segments=st.lists(segments(), max_size=2).map(tuple),
    findings=findings,
    log_start_offset=st.none(),
    log_end_offset=st.none(),
    at_risk_bytes=st.none(),
)
places = st.builds(PlaceVerdict, path=st.just("/d"), findings=findings)
verdicts = st.lists(st.one_of(partitions, places), max_size=5)


def line_of(given_: list[PartitionVerdict | PlaceVerdict], ends: Mapping[str, object]) -> tuple[str, Report]:
    report, states = Report(), Counter[str]()
    for verdict in given_:
        count(verdict, report)
        if isinstance(verdict, PartitionVerdict):
            states[state_of(verdict)] += 1
    assert sum(states.values()) == report.partitions
    return verdict_sentence(report.summary_row() | ends, states), report


def check(line: str, report: Report, states: Counter[str]) -> None:
    errors, warnings = report.severities["error"], report.severities["warning"]
    assert ("DAMAGED" in line) == bool(states["damaged"])
    assert ("ERRORS" in line) == (bool(errors) and not states["damaged"])
    assert ("warnings" in re.sub(r"\| .*", "", line.removeprefix("not everything could be read | "))) == bool(
        warnings and not errors
    )
    if "clean" in line:
        assert not errors
        assert not warnings
    if "without damage" in line:
        assert not report.damage_count
        assert not states["damaged"]
    if "without errors" in line:
        assert report.damage_count
        assert not states["damaged"]
    assert (f"{states['unread']} not read" in line) == bool(states["unread"])
    if not states["damaged"]:
        assert ("without a batch" in line) == bool(report.damage_count)
    of_partitions = re.search(r"(?:(\d+) of )?(\d+) partitions? without", line)
    if of_partitions:
        sound, total = of_partitions.groups()
        assert int(total) == report.partitions
        assert int(sound or total) == report.partitions - states["unread"]


@given(verdicts)
def test_the_line_agrees_with_its_figures(given_: list[PartitionVerdict | PlaceVerdict]) -> None:
    line, report = line_of(given_, {})
    states = Counter(state_of(verdict) for verdict in given_ if isinstance(verdict, PartitionVerdict))
    check(line, report, states)
    assert line.startswith("not everything could be read | ") == (report.exit_status == 3)
    assert line.endswith(f"exit status {report.exit_status}")


@given(verdicts, st.integers(1, 10**10))
def test_an_interrupted_run_never_calls_clean_what_it_has_not_seen(
    given_: list[PartitionVerdict | PlaceVerdict], unfinished: int
) -> None:
    ends = {"interrupted": True, "exit_status": 1, "unfinished_bytes": unfinished}
    line, report = line_of(given_, ends)
    assert line.startswith("interrupted | ")
    assert "read of unfinished partitions" in line
    if not report.partitions:
        assert "clean so far" not in line
    sentence = summary_sentence(report.summary_row() | ends)
    assert "read from 0 files" not in sentence
    if not report.partitions and not report.severities:
        assert sentence.startswith("interrupted | nothing is finished | ")


def test_what_it_says() -> None:
    error = Finding(code="checkpoint.missing", severity="error", path="/d/c", message="so")
    sound = PartitionVerdict(
        path="/d/t-0",
        topic="t",
        partition=0,
        segments=(),
        findings=(),
        log_start_offset=None,
        log_end_offset=None,
        at_risk_bytes=None,
    )
    line, _ = line_of([sound, sound, PlaceVerdict(path="/d", findings=(error,))], {})
    assert line.startswith("ERRORS: 2 partitions without damage | 1 error | ")
    line, _ = line_of([], {"interrupted": True, "exit_status": 1, "unfinished_bytes": 8 * 1024**3})
    assert line.startswith("interrupted | no partition is finished | 0 B of log in 0 files")
    assert "8.0 GiB read of unfinished partitions" in line
