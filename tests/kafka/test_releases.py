"""Releases: their order, their spelling, their classes."""

from __future__ import annotations

import ast
import re
from itertools import pairwise
from typing import TYPE_CHECKING

import pytest

from kafkalog_core.errors import SettingError
from kafkalog_core.kafka.rules.cleaner_rules import cleaner_settings
from kafkalog_core.kafka.rules.releases import (
    KNOWN,
    LATEST,
    NEWEST_LEVEL,
    RELEASES,
    Release,
    Since,
    describe_known,
    parse_release,
    release_of_level,
)
from kafkalog_core.kafka.rules.rule_table import rules_of
from kafkalog_core.kafka.sim.evidence import ReleaseGuess
from kafkalog_core.structs import replace
from tests.support.for_each import for_each
from tests.support.product import ROOT, modules

if TYPE_CHECKING:
    from pathlib import Path

RELEASE_IN_NAME = re.compile(r"\d+\.\d+\.\d+(?:\.\d+)?")


def test_every_release_is_after_the_one_before() -> None:
    for before, after in pairwise(RELEASES):
        assert before < after
    assert RELEASES[-1] == LATEST


@pytest.mark.parametrize(
    ("text", "release", "shown"),
    [
        ("2.8.2", Release(2, 8, 2), "2.8.2"),
        ("4.3", Release(4, 3), "4.3"),
        ("4.3.0", Release(4, 3), "4.3"),
        ("0.11.0.3", Release(0, 11, 0, 3), "0.11.0.3"),
        ("0.10.2", Release(0, 10, 2), "0.10.2"),
        ("0.9", Release(0, 9), "0.9.0"),
        (" v3.9.1-rc0 ", Release(3, 9, 1), "3.9.1"),
    ],
)
def test_spellings(text: str, release: Release, shown: str) -> None:
    assert parse_release(text) == release
    assert str(release) == shown


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "'' is not a release"),
        ("4", "'4' is not a release"),
        ("4.x", "the nearest: 4."),
        ("latest", "'latest' is not a release"),
        ("0.6", "the nearest: 0.7. "),
        ("0.12", "the nearest: 0.11 or 1.0. "),
        ("0.8.3", "the nearest: 0.8.2 or 0.9. "),
        ("1.2", "the nearest: 1.1 or 2.0. "),
        ("2.9", "the nearest: 2.8 or 3.0. "),
        ("2.8.1.4", "'2.8.1.4' is not a release"),
        ("28", "the nearest: 2.8. "),
        ("2,8", "the nearest: 2.8"),
        ("٤.٣", "is not a release"),
        ("1.2.3.4.5", "is not a release"),
        ("4.5", f"Kafka 4.5 is newer than this kafkalog knows ({LATEST}); the nearest: {LATEST}. "),
        ("9.9", f"Kafka 9.9 is newer than this kafkalog knows ({LATEST}); the nearest: {LATEST}. "),
    ],
)
def test_an_unknown_release_is_refused_with_the_list_and_the_nearest(text: str, said: str) -> None:
    with pytest.raises(SettingError) as refusal:
        parse_release(text)
    assert said in refusal.value.message
    assert refusal.value.message.endswith(f"Known releases, each with its bug fixes: {describe_known()}")


def test_the_list_for_people_names_both_ends_of_each_family() -> None:
    assert describe_known() == (
        "0.7, 0.8.0 to 0.8.2, 0.9, 0.10.0 to 0.10.2, 0.11, 1.0 to 1.1, 2.0 to 2.8, 3.0 to 3.9, 4.0 to 4.4"
    )
    for end in describe_known().replace(", ", " to ").split(" to "):
        parse_release(end)


def test_every_level_is_of_one_release() -> None:
    levels = [level for known in KNOWN if known.levels for level in range(known.levels[0], known.levels[1] + 1)]
    assert levels == list(range(1, NEWEST_LEVEL + 1))
    assert [release_of_level(level) for level in (0, NEWEST_LEVEL + 1)] == [None, None]
    assert release_of_level(NEWEST_LEVEL) == LATEST


@pytest.mark.parametrize(
    ("level", "release"),
    [(1, (3, 0)), (7, (3, 3)), (21, (3, 9)), (25, (4, 0)), (30, (4, 3)), (31, (4, 4)), (33, (4, 4))],
)
def test_levels(level: int, release: tuple[int, int]) -> None:
    assert release_of_level(level) == Release(*release)


def test_every_release_of_the_corpus_is_known(corpus: Path) -> None:
    named = {found[-1] for path in corpus.glob("*/*") if (found := RELEASE_IN_NAME.findall(path.name))}
    assert len(named) > 1
    for text in named:
        parse_release(text)


@pytest.mark.parametrize(
    ("text", "is_there"),
    [
        *(("2.8.2", False), ("4.2", False), ("4.2.1", False), ("4.2.2", True), ("4.2.3", True)),
        *(("4.3", False), ("4.3.1", False), ("4.4", True), ("4.4.0", True), ("4.4.1", True)),
    ],
)
def test_a_change_may_come_with_a_bug_fix_of_an_earlier_line(text: str, is_there: bool) -> None:
    """Seen in the jars of 4.2.2, 4.3.1 and 4.4.0."""
    release = parse_release(text)
    assert Since.ELEMENT_LIMIT.is_in(release) is is_there
    assert (rules_of(release).max_snapshot_entries == 1_000_000) is is_there
    assert ("max.decompressed.message.bytes" in cleaner_settings(release)) is is_there


def test_a_disk_of_4_2_may_be_of_either_side_of_a_bug_fix() -> None:
    guess = ReleaseGuess(release=Release(4, 2), is_certain=True, candidates=(Release(4, 2),), evidence=())
    assert not guess.agree(cleaner_settings)
    assert replace(guess, is_named=True).agree(cleaner_settings)
    of_4_3 = ReleaseGuess(release=Release(4, 3), is_certain=True, candidates=(Release(4, 3),), evidence=())
    assert of_4_3.agree(cleaner_settings)


# --- the table and the product's texts --------------------------------------------------------------------------------
NEWEST = re.compile(r"""(?:\b0\.[78]|\breleases? up|"up) to (4\.\d+)""")
"""Where a text says up to which release this project knows something."""


def test_no_text_names_another_newest_release_than_the_table() -> None:
    paths = [*ROOT.glob("kafkalog_c*/**/*.py"), *ROOT.glob("man/*"), *ROOT.glob("docs/**/*.md"), ROOT / "README.md"]
    texts = ((path.name, path.read_text(encoding="utf-8")) for path in paths)
    named = [(name, match[1]) for name, text in texts for match in NEWEST.finditer(text)]
    assert {"README.md", "index.md", "contributing.md", "kafkalog-explain.1"} <= {name for name, _ in named}
    assert [each for each in named if each[1] != str(LATEST)] == []


TABLE = "kafkalog_core/kafka/rules/releases.py"
RULES = {
    "kafkalog_core/kafka/rules/rule_table.py": "loading, recovery, appends and look-ups",
    "kafkalog_core/kafka/rules/cleaner_rules.py": "the cleaner",
    "kafkalog_core/kafka/sim/retention/rules.py": "retention",
    "kafkalog_core/kafka/rules/setting_table.py": "defaults and limits of settings",
    "kafkalog_core/kafka/rules/coordinator_rules.py": "records that coordinators load",
    "kafkalog_core/kafka/rules/metadata_rules.py": "records of the metadata log that a node loads",
    "kafkalog_core/kafka/rules/offset_expiry.py": "when committed offsets expire",
    "kafkalog_core/kafka/sim/evidence.py": "what shows the release of a disk",
}
OTHER_VERSIONS = {
    "kafkalog_core/kafka/rules/cleaner_rules.py": "of lz4-java",
    "kafkalog_core/format/compression.py": "of lz4-java",
    "kafkalog_core/serve/network/tls.py": "object identifiers of X.500",
    "kafkalog_core/livebroker/disks/topic_configs.py": "defaults of settings that are fractions",
}
VERSION = re.compile(r"v?\d\.\d+(\.\d+)*")
NAMES_A_RELEASE = re.compile(r"(^|[._])release$|\bSince\b|\bRelease\b|\bLATEST\b")
ORDERS = (ast.Lt, ast.LtE, ast.Gt, ast.GtE)


def _compares_releases(node: ast.AST) -> bool:
    if isinstance(node, ast.Compare) and any(isinstance(each, ORDERS) for each in node.ops):
        return any(NAMES_A_RELEASE.search(ast.unparse(each)) for each in (node.left, *node.comparators))
    return isinstance(node, ast.ImportFrom) and any(alias.name == "Since" for alias in node.names)


def _spells_a_version(node: ast.AST, name: str) -> bool:
    if isinstance(node, ast.Call):
        return "Release" in {getattr(node.func, "id", None), getattr(node.func, "attr", None)}
    is_text = isinstance(node, ast.Constant) and isinstance(node.value, str)
    return is_text and name not in OTHER_VERSIONS and VERSION.fullmatch(str(node.value)) is not None


@for_each(modules)
def test_releases_are_compared_by_the_rules_alone(name: str) -> None:
    """Everything else asks a rule by its name; the boundaries are rows of one table."""
    if name != TABLE:
        nodes = list(ast.walk(ast.parse(modules()[name])))
        compared = [ast.unparse(node) for node in nodes if _compares_releases(node)]
        assert name in RULES or not compared, compared
        spelled = [ast.unparse(node) for node in nodes if _spells_a_version(node, name)]
        assert not spelled, spelled


def test_every_boundary_is_used() -> None:
    text = "".join(modules().values())
    assert [name for name in vars(Since) if name.isupper() and f"Since.{name}" not in text] == []
