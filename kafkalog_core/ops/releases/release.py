"""Releases of Kafka: their order, their spelling, and which of them share one set of rules on disk."""

from __future__ import annotations

import re
from bisect import bisect_right
from typing import Final, NamedTuple

from kafkalog_core.errors import SettingError

__all__ = ["LATEST", "RELEASES", "Release", "RuleClass", "parse_release", "rule_class"]

_SPELLING: Final = re.compile(r"v?(\d{1,3}(?:\.\d{1,3}){1,3})(?:-.*)?", re.ASCII)


class Release(NamedTuple):
    """A release, in its order: `Release(0, 8, 2) < Release(0, 11) < Release(2, 8) < Release(4, 3, 1)`."""

    major: int
    minor: int
    patch: int = 0
    build: int = 0

    def __str__(self) -> str:
        parts = list(self)
        least = 3 if self.major == 0 else 2  # 0.8.2 and 2.8 are what people call a release
        while len(parts) > least and not parts[-1]:
            parts.pop()
        return ".".join(map(str, parts))


class RuleClass(NamedTuple):
    """Releases between which no rule of this project differs: all from `first` on, below the next class."""

    name: str
    first: Release


RELEASES: Final = (
    *(Release(0, 7), Release(0, 8, 0), Release(0, 8, 1), Release(0, 8, 2), Release(0, 9)),
    *(Release(0, 10, 0), Release(0, 10, 1), Release(0, 10, 2), Release(0, 11)),
    *(Release(1, minor) for minor in range(2)),
    *(Release(2, minor) for minor in range(9)),
    *(Release(3, minor) for minor in range(10)),
    *(Release(4, minor) for minor in range(4)),
)
"""Every release that there was, without its bug fixes."""
LATEST: Final = RELEASES[-1]
_CLASSES: Final = (
    RuleClass("0.7", Release(0, 7)),
    RuleClass("0.8.0", Release(0, 8, 0)),
    RuleClass("0.8.2", Release(0, 8, 1)),
    RuleClass("0.9 and 0.10.0", Release(0, 9)),
    RuleClass("0.10.1 and 0.10.2", Release(0, 10, 1)),
    RuleClass("0.11 and 1.x", Release(0, 11)),
    RuleClass("2.x", Release(2, 0)),
    RuleClass("3.x", Release(3, 0)),
    RuleClass("4.x", Release(4, 0)),
)
_FIRSTS: Final = tuple(each.first for each in _CLASSES)


def parse_release(text: str) -> Release:
    """`2.8`, `2.8.2`, `0.11.0.3`, also `3.9.1-rc0`. Raises SettingError for what is no release from 0.7 on."""
    match = _SPELLING.fullmatch(text.strip())
    release = Release(*map(int, match[1].split("."))) if match else None
    if release is None or release < RELEASES[0]:
        raise SettingError(f"{text!r} is no release of Kafka; write it like 2.8.2, 4.3 or 0.10.2")
    if release.major == 0 and release.minor > Release(0, 11).minor:
        raise SettingError(f"there was no Kafka {text}: 1.0 came after 0.11")
    return release


def rule_class(release: Release) -> RuleClass:
    """The class of a release; later ones than are known are taken for the latest."""
    return _CLASSES[max(0, bisect_right(_FIRSTS, release) - 1)]
