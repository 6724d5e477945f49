"""Shorthands for settings, and --now, on a command made for these tests."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click
import pytest
from click.testing import CliRunner

from kafkalog_cli.options.kafka import kafka_options, now_option, setting_options

if TYPE_CHECKING:
    from kafkalog_core.kafka.rules.setting_requests import SettingsRequest


@click.command()
@setting_options(
    min_cleanable_dirty_ratio="Above it.",
    min_compaction_lag_ms="Younger than it.",
    retention_bytes="So many.",
    cleanup_policy="A list.",
)
@now_option
@kafka_options
def command(request: SettingsRequest, now_ms: int) -> None:
    """Say what was asked for."""
    click.echo(json.dumps([request.assignments, now_ms]))


def run(*arguments: str) -> tuple[list[str], int]:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 0, result.stderr
    assignments, now_ms = json.loads(result.stdout)
    return assignments, now_ms


def test_a_shorthand_is_an_assignment() -> None:
    assert run("--min-compaction-lag-ms", "5", "--set", "segment.bytes=100")[0] == [
        "segment.bytes=100",
        "min.compaction.lag.ms=5",
    ]
    assert run()[0] == []


def test_the_same_said_twice_is_said_once() -> None:
    assert run("--min-compaction-lag-ms", "5", "--set", "min.compaction.lag.ms= 5")[0] == ["min.compaction.lag.ms=5"]


def test_unlimited_and_lists() -> None:
    assert run("--retention-bytes", "-1", "--cleanup-policy", "compact,delete")[0] == [
        "retention.bytes=-1",
        "cleanup.policy=compact,delete",
    ]


def test_now() -> None:
    assert run("--now", "2023-11-14T22:13:20Z")[1] == 1_700_000_000_000
    assert run()[1] > 1_700_000_000_000


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("--min-compaction-lag-ms", "-5"), "-5 is out of range: the minimum is 0"),
        (("--min-compaction-lag-ms", "soon"), "'soon' is not a whole number from 0"),
        (("--min-compaction-lag-ms", str(2**63)), "is not a whole number from 0 to 2^63-1"),
        (("--retention-bytes", "-2"), "the minimum is -1 (-1: unlimited)"),
        (("--min-cleanable-dirty-ratio", "1.5"), "'1.5' is not a number from 0 to 1"),
        (("--min-cleanable-dirty-ratio", "nan"), "'nan' is not a number from 0 to 1"),
        (("--min-cleanable-dirty-ratio", "half"), "'half' is not a number from 0 to 1"),
        (
            ("--min-compaction-lag-ms", "5", "--set", "min.compaction.lag.ms=6"),
            "--min-compaction-lag-ms 5 and --set min.compaction.lag.ms=6 contradict each other",
        ),
        (("--now", "yesterday"), "not a time"),
    ],
)
def test_nonsense(arguments: tuple[str, ...], sentence: str) -> None:
    result = CliRunner().invoke(command, arguments)
    assert result.exit_code == 2
    assert sentence in " ".join(result.stderr.split())
