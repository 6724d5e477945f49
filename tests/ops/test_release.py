"""Releases: their order, their spelling, their classes."""

from __future__ import annotations

from itertools import pairwise

import pytest

from kafkalog_core.errors import SettingError
from kafkalog_core.ops.releases.release import LATEST, RELEASES, Release, parse_release, rule_class


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


@pytest.mark.parametrize("text", ["", "4", "4.x", "latest", "0.6", "0.12", "2,8", "٤.٣", "1.2.3.4.5"])
def test_no_release(text: str) -> None:
    with pytest.raises(SettingError):
        parse_release(text)


@pytest.mark.parametrize(
    ("texts", "name"),
    [
        (("0.7.2",), "0.7"),
        (("0.8.0",), "0.8.0"),
        (("0.8.1.1", "0.8.2.2"), "0.8.2"),
        (("0.9.0.1", "0.10.0.1"), "0.9 and 0.10.0"),
        (("0.10.1.0", "0.10.2.2"), "0.10.1 and 0.10.2"),
        (("0.11.0.3", "1.0.0", "1.1.1"), "0.11 and 1.x"),
        (("2.0.0", "2.8.2"), "2.x"),
        (("3.0.0", "3.9.1"), "3.x"),
        (("4.0", "4.3.1", "5.0"), "4.x"),
    ],
)
def test_classes(texts: tuple[str, ...], name: str) -> None:
    assert {rule_class(parse_release(text)).name for text in texts} == {name}
