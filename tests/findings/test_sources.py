"""No sentence about what a broker, a consumer or a producer does without a source."""

from __future__ import annotations

import re

import pytest

from kafkalog_core.findings.broker_actions import BEFORE_OFFLINE
from kafkalog_core.kafka.rules.releases import Release, Since
from kafkalog_core.kafka.rules.rule_table import rules_of
from tests.findings import sources
from tests.support.sentences import ROOT, collect

_HOW = (
    "Name where it comes from in tests/findings/sources.txt, as a word of tests/findings/sources.py, a tab and the "
    "sentence: a simulation in kafkalog_core/kafka, or a table or test that runs the real software. Where there is "
    "none, run it, or leave the sentence out."
)


def test_every_sentence_about_a_broker_or_a_client_has_a_source() -> None:
    kept = sources.read()
    missing = [f"{place}: {sentence}" for sentence, place in collect().items() if sentence not in kept]
    assert not missing, "\n".join((_HOW, *missing))


def test_no_source_is_kept_for_a_sentence_that_is_gone() -> None:
    gone = sorted(sources.read().keys() - collect().keys())
    assert not gone, "\n".join(("Delete these lines of tests/findings/sources.txt:", *gone))


def test_each_source_exists() -> None:
    assert set(sources.read().values()) == sources.SOURCES.keys(), "each word is used, and each used word is known"
    assert all((ROOT / path).exists() for path in sources.SOURCES.values())


def test_what_consumers_and_producers_do_is_never_only_a_wording() -> None:
    wordings = [sentence for sentence, word in sources.read().items() if word == "wording"]
    assert not [each for each in wordings if "onsumers" in each]


def test_the_list_is_sorted_and_has_each_sentence_once() -> None:
    lines = sources.KEPT.read_text(encoding="utf-8").splitlines()
    assert lines == sorted(lines)
    assert len({line.partition("\t")[2] for line in lines}) == len(lines)


@pytest.mark.parametrize("minor", [(0, 11), (1, 0), (1, 1), (2, 8), (3, 1), (3, 2), (4, 3)])
def test_the_releases_that_do_not_start_are_those_of_the_simulated_start(minor: tuple[int, int]) -> None:
    """The sentence about refused checkpoints has the numbers of its rules."""
    dirs, epochs = (
        tuple(map(int, each)) for each in re.findall(r"before (\d)\.(\d)", BEFORE_OFFLINE.replace("those ", ""))
    )
    rules = rules_of(Release(*minor))
    assert rules.has_failed_dirs == (minor >= dirs)
    assert rules.survives_refused_epochs == (minor >= epochs)
    assert (dirs, epochs) == (Since.FAILED_LOG_DIRS[:2], Since.REFUSED_EPOCHS_OFFLINE[:2])
