"""What is said of each segment: its fate, the rule, and when it falls due."""

from __future__ import annotations

from kafkalog_core.kafka.sim.retention.forecast import Forecast, forecast
from kafkalog_core.kafka.sim.start.segment_views import NO_TIMESTAMP
from kafkalog_core.ops.retain.rows import findings_of, sentence_of, state_of
from tests.kafka.retention.views import question, segments


def _told(found: Forecast) -> list[tuple[str, str, int | None]]:
    return [(fate.verdict, fate.rule, fate.due_ms) for fate in found.fates]


def _codes(found: Forecast) -> list[str]:
    return [finding.code for finding in findings_of(found)]


def test_time_says_when_each_segment_falls_due() -> None:
    found = forecast(question(segments(1, 1, 1, times=[0, 300, 200]), 150, retention_ms="100"))
    assert _told(found) == [("delete", "time", 101), ("keep", "time", 401), ("keep", "time", 401)]
    assert found.next_due is found.fates[1]
    assert state_of(found) == "deletes"
    assert sentence_of(found) == (
        "1 segment with 1 B would be deleted by time; the log start offset would rise from 0 to 10; the next one "
        "becomes due at 1970-01-01T00:00:00.401Z (in 251 ms)"
    )
    assert (found.deleted_offsets, found.kept_offsets, found.deleted_bytes, found.kept_bytes) == (10, 20, 1, 2)


def test_an_older_segment_holds_newer_ones_back() -> None:
    found = forecast(question(segments(1, 1, 1, times=[500, 0, 490]), 450, retention_ms="100"))
    assert _told(found) == [("keep", "time", 601), ("keep", "held", 601), ("keep", "time", 601)]
    assert found.fates[1].reason == (
        "450 ms old, over retention.ms 100 ms, but waits for 00000000000000000000.log, which is kept"
    )
    assert _codes(found) == ["retain.future-timestamp", "retain.future-timestamp", "retain.held-back"]
    assert state_of(found) == "waits"


def test_size_tells_no_time() -> None:
    found = forecast(question(segments(100, 100, 100), 10**6, retention_bytes="150"))
    assert _told(found) == [("delete", "size", None), ("keep", "size", None), ("keep", "size", None)]
    assert found.next_due is None


def test_size_and_time_together_say_the_earlier() -> None:
    found = forecast(
        question(segments(100, 100, 100, times=[0, 100, 200]), 50, retention_bytes="10000", retention_ms="70")
    )
    assert _told(found) == [("keep", "time", 71), ("keep", "time", 171), ("keep", "time", 271)]
    assert found.fates[0].reason == (
        "only 200 B would remain without it, below retention.bytes 9.8 KiB; 50 ms old, within retention.ms 70 ms"
    )


def test_the_high_watermark_is_said_to_hold() -> None:
    found = forecast(question(segments(1, 1, times=[0, 0]), 500, retention_ms="100", watermark=9))
    assert _told(found) == [("keep", "high-watermark", None), ("keep", "held", None)]
    assert "above the high watermark 9" in found.fates[0].reason
    assert state_of(found) == "held"
    assert "retain.high-watermark" in _codes(found)


def test_without_limits_nothing_ever_goes() -> None:
    found = forecast(question(segments(1, 1), 500))
    assert _told(found) == [("keep", "none", None), ("keep", "none", None)]
    assert state_of(found) == "never"
    no_limit = "retention.bytes is unlimited; retention.ms is unlimited"
    assert sentence_of(found) == f"nothing would be deleted, and no time will change that: {no_limit}"
    assert _codes(found) == []


def test_a_cleaner_that_is_off_deletes_nothing() -> None:
    found = forecast(
        question(segments(1, 1), 500, cleanup_policy="compact,delete", log_cleaner_enable="false", retention_ms="1")
    )
    assert [fate.rule for fate in found.fates] == ["none", "none"]
    assert _codes(found) == ["retain.cleaner-off"]


def test_all_that_goes() -> None:
    found = forecast(question(segments(1, 1, times=[0, 0]), 500, retention_ms="100"))
    assert _told(found) == [("delete", "time", 101), ("delete", "time", 101)]
    assert "none would be left, so the broker first rolls an empty one" in sentence_of(found)
    assert found.is_change


def test_an_empty_log() -> None:
    found = forecast(question(segments(0, times=[NO_TIMESTAMP]), 500, retention_ms="100"))
    assert _told(found) == [("keep", "empty-active", None)]
    assert (state_of(found), sentence_of(found)) == ("empty", "there is nothing in it to delete")
    assert not found.is_change


def test_where_remote_storage_decides_nothing_is_guessed() -> None:
    found = forecast(
        question(segments(1, 1, 1, times=[0, 0, 400]), 500, retention_ms="200", remote_storage_enable="true")
    )
    assert [(fate.verdict, fate.rule) for fate in found.fates] == [
        ("unknown", "remote"),
        ("unknown", "held"),
        ("keep", "time"),
    ]
    assert [fate.due_ms for fate in found.fates] == [None, None, None]
    assert "retain.remote-unknown" in _codes(found)


def test_files_without_timestamps_are_named() -> None:
    found = forecast(question(segments(1, 1, times=[NO_TIMESTAMP, 5]), 500, retention_ms="10000"))
    assert _codes(found) == ["retain.by-file-time"]
