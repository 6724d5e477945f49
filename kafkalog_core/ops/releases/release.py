"""The table of known releases of Kafka: their order, their spelling, their levels, and which share one set of rules."""

from __future__ import annotations

import re
from bisect import bisect_right
from difflib import get_close_matches
from typing import Final, NamedTuple

from kafkalog_core.errors import SettingError

__all__ = [
    "KNOWN",
    "LATEST",
    "NEWEST_LEVEL",
    "RELEASES",
    "KnownRelease",
    "Release",
    "RuleClass",
    "describe_known",
    "parse_release",
    "release_of_level",
    "rule_class",
]

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


class KnownRelease(NamedTuple):
    """A release without its bug fixes; `levels`: those of metadata.version that came with it, first and last."""

    release: Release
    levels: tuple[int, int] | None = None


KNOWN: Final = (
    *map(KnownRelease, (Release(0, 7), Release(0, 8, 0), Release(0, 8, 1), Release(0, 8, 2), Release(0, 9))),
    *map(KnownRelease, (Release(0, 10, 0), Release(0, 10, 1), Release(0, 10, 2), Release(0, 11))),
    *(KnownRelease(Release(1, minor)) for minor in range(2)),
    *(KnownRelease(Release(2, minor)) for minor in range(9)),
    KnownRelease(Release(3, 0), (1, 1)),  # levels by MetadataVersion.java; the last one is the production default
    KnownRelease(Release(3, 1), (2, 2)),
    KnownRelease(Release(3, 2), (3, 3)),
    KnownRelease(Release(3, 3), (4, 7)),
    KnownRelease(Release(3, 4), (8, 8)),
    KnownRelease(Release(3, 5), (9, 11)),
    KnownRelease(Release(3, 6), (12, 14)),
    KnownRelease(Release(3, 7), (15, 19)),
    KnownRelease(Release(3, 8), (20, 20)),
    KnownRelease(Release(3, 9), (21, 21)),
    KnownRelease(Release(4, 0), (22, 25)),
    KnownRelease(Release(4, 1), (26, 27)),
    KnownRelease(Release(4, 2), (28, 29)),
    KnownRelease(Release(4, 3), (30, 30)),
    KnownRelease(Release(4, 4), (31, 33)),  # its MetadataVersion has 34, too: 4.5-IV0, which is not for production
)
"""Every release whose rules this project knows."""
RELEASES: Final = tuple(known.release for known in KNOWN)
LATEST: Final = RELEASES[-1]
NEWEST_LEVEL: Final = max(known.levels[1] for known in KNOWN if known.levels is not None)
"""The highest level of metadata.version that a known release uses: a higher one is of a newer release."""
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
    """Return the release that `text` names: `2.8`, `2.8.2`, `0.11.0.3`, also `3.9.1-rc0`.

    A bug fix counts as known where its release is: bug fixes change no format. Raises SettingError for a text that
    is not a release, and for a release that is not in `KNOWN`: its rules would be a guess.
    """
    match = _SPELLING.fullmatch(text.strip())
    release = Release(*map(int, match[1].split("."))) if match else None
    if release is None or not _is_known(release):
        raise SettingError(_refusal(text.strip(), release))
    return release


def release_of_level(level: int) -> Release | None:
    """Return the release that a level of metadata.version came with; `None` below the first and above the newest."""
    spans = ((known.release, known.levels) for known in KNOWN if known.levels is not None)
    return next((release for release, (first, last) in spans if first <= level <= last), None)


def describe_known() -> str:
    """Return all known releases, shortened: `0.7, 0.8.0 to 0.8.2, 0.9, ..., 4.0 to 4.4`."""
    spans: list[list[Release]] = []
    for release in RELEASES:
        if spans and _family(spans[-1][-1]) == _family(release):
            spans[-1].append(release)
        else:
            spans.append([release])
    return ", ".join(" to ".join(dict.fromkeys(_short(span[end]) for end in (0, -1))) for span in spans)


def rule_class(release: Release) -> RuleClass:
    """Return the class of a release; the latest class for later releases than are known."""
    return _CLASSES[max(0, bisect_right(_FIRSTS, release) - 1)]


def _is_known(release: Release) -> bool:
    """From 1.0 on the third number is the bug fix, before that the fourth; 0.7 has only three."""
    if release.major:
        return not release.build and Release(release.major, release.minor) in RELEASES
    if (release.major, release.minor) == RELEASES[0][:2]:
        return not release.build
    return release._replace(build=0) in RELEASES


def _refusal(text: str, release: Release | None) -> str:
    near = _neighbours(release) if release is not None else get_close_matches(text, map(_short, RELEASES), n=3)
    newer = f"Kafka {text} is newer than this kafkalog knows ({LATEST})"
    said = newer if release is not None and release > LATEST else f"{text!r} is not a release that kafkalog knows"
    advice = f"; the nearest: {' or '.join(near)}" if near else ""
    return f"{said}{advice}. Known releases, each with its bug fixes: {describe_known()}"


def _neighbours(release: Release) -> list[str]:
    """The known releases just before and after one that is unknown."""
    place = bisect_right(RELEASES, release)
    return [_short(each) for each in RELEASES[max(0, place - 1) : place + 1]]


def _family(release: Release) -> tuple[int, ...]:
    """What releases have in common that `describe_known` writes as one span."""
    return release[:1] if release.major else release[:2]


def _short(release: Release) -> str:
    """Write a release as people do: 0.7, not 0.7.0."""
    has_siblings = sum(_family(each) == _family(release) for each in RELEASES) > 1
    return str(release) if has_siblings else f"{release.major}.{release.minor}"
