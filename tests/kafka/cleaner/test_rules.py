"""The table of what releases' cleaners do differently."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkalog_core.kafka.rules.cleaner_rules import CleaningRules, cleaning_rules
from kafkalog_core.kafka.rules.releases import parse_release

READ = (
    "0.8.2.2",
    "0.9.0.1",
    "0.10.0.1",
    "0.10.2.2",
    "0.11.0.3",
    "1.1.1",
    "2.1.1",
    "2.8.2",
    "3.9.1",
    "4.1.0",
    "4.3.1",
    "4.4.0",
)
ROWS = {
    "map_filling": "skipping spans whole records records records records records records records records records",
    "follows_batches": "0 0 0 0 1 1 1 1 1 1 1 1",
    "jumps_gaps": "0 0 0 0 0 0 0 1 1 1 1 1",
    "starts_at_segment": "1 1 1 0 0 0 0 0 0 0 0 0",
    "has_min_lag": "0 0 0 1 1 1 1 1 1 1 1 1",
    "has_max_lag": "0 0 0 0 0 0 0 1 1 1 1 1",
    "heeds_transactions": "0 0 0 0 1 1 1 1 1 1 1 1",
    "heeds_high_watermark": "0 0 0 0 0 0 0 0 1 1 1 1",
    "resets_below_start": "0 1 1 1 1 1 1 1 1 1 1 1",
    "resets_above_end": "0 0 0 0 0 0 0 1 1 1 1 1",
    "clean_bytes_before_dirty": "1 0 0 0 0 0 0 0 0 0 0 0",
    "keeps_past_latest": "0 0 0 1 1 1 1 1 1 1 1 1",
    "looks_up_control_keys": "0 0 0 0 1 1 1 1 0 0 0 0",
    "uses_horizons": "0 0 0 0 0 0 0 0 1 1 1 1",
    "converts_legacy": "0 0 0 0 0 0 0 0 0 1 1 1",
    "lz4_java": "1.2 1.2 1.3 1.3 1.3 1.3 1.5 1.5 1.5 1.5 1.5 1.5",
    "last_of_producer": "None None None None sequence sequence sequence offset offset offset offset offset",
    "keeps_round_end": "0 0 0 0 0 0 0 0 0 1 1 0",
    "keeps_watermark_end": "0 0 0 0 0 0 0 0 0 0 0 1",
    "shares_transactions": "0 0 0 0 0 0 0 1 1 1 1 1",
    "strict_group_limits": "1 0 0 0 0 0 0 0 0 0 0 0",
    "groups_time_indexes": "0 0 0 1 1 1 1 1 1 1 1 1",
    "groups_by_last_entry": "0 1 1 0 0 0 0 0 0 0 0 0",
    "frees_empty_segments": "0 0 0 0 0 0 0 0 1 1 1 1",
    "appends_chunks": "1 1 1 1 1 1 1 1 0 0 0 0",
    "fails_on_null_keys": "1 0 0 0 0 0 0 0 0 0 0 0",
}


@pytest.mark.parametrize("name", ROWS)
def test_each_release_whose_source_was_read(name: str) -> None:
    expected = ROWS[name].split()
    found = [getattr(cleaning_rules(parse_release(release)), name) for release in READ]
    assert [str(int(each)) if isinstance(each, bool) else str(each) for each in found] == expected


@pytest.mark.parametrize(
    ("name", "before", "first"),
    [
        ("groups_by_last_entry", "0.10.1.1", "0.10.2.2"),
        ("shares_transactions", "2.1.1", "2.2.2"),
        ("starts_at_first_segment", "2.2.2", "2.3.1"),
        ("resets_above_end", "2.2.2", "2.3.1"),
        ("shortcuts_empty_ranges", "2.5.0", "2.5.1"),
    ],
)
def test_neighbouring_releases_whose_sources_were_compared(name: str, before: str, first: str) -> None:
    values = [getattr(cleaning_rules(parse_release(release)), name) for release in (before, first)]
    assert values[0] != values[1]


def test_no_rule_ever_comes_back() -> None:
    """A rule is one of a stretch of releases: neighbours differ at most twice along the way."""
    for name in CleaningRules.__struct_fields__:
        values = [getattr(cleaning_rules(parse_release(release)), name) for release in READ]
        if name != "release":
            changes = sum(one != other for one, other in pairwise(values))
            assert changes <= (3 if name in {"map_filling", "wrappers"} else 2), name


def test_a_release_before_the_first_cleaner_has_its_rules() -> None:
    assert cleaning_rules(parse_release("0.7.2")).map_filling == "skipping"


@pytest.mark.parametrize(("before", "first"), [("0.9.0.1", "0.10.0.0"), ("2.0.1", "2.1.0")])
def test_lz4_is_compressed_otherwise_from_a_release_on(before: str, first: str) -> None:
    """Their lz4-java: 1.2.0 and 1.3.0, 1.4.1 and 1.5.0."""
    assert cleaning_rules(parse_release(before)).lz4_java != cleaning_rules(parse_release(first)).lz4_java


def test_the_last_batch_of_a_producer_is_kept_by_its_offset_since_kafka_8335() -> None:
    kept = [cleaning_rules(parse_release(release)).last_of_producer for release in ("2.2.0", "2.2.1", "2.3.0")]
    assert kept == ["sequence", "offset", "offset"]
