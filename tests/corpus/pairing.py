"""Which copy of a disk a truth or a golden is about: rules of the corpus's layout, none about a certain case."""

from __future__ import annotations

import fnmatch
import re
from collections import defaultdict
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator

RECORDS = "records.jsonl.gz"
# Where one partition alone was copied: file of truth, the log directory, and what the case's sheet calls that reading.
BARE_TRUTHS = {
    "truth-1-after-append.jsonl.gz": ("after", "after append"),
    "truth-3-after-kill9-restart.jsonl.gz": ("after-kill9-and-recovery", "after kill -9 and recovery"),
}

# A directory of truths, relative to its case, and the log directories, as globs, that were read or hold the same log.
_TRUTH_RULES = (
    (r"(?P<stage>.+/)?truth", "{stage}logdir"),
    (r"truth", "base-*"),
    (r"truth-(?P<stage>.+)", "{stage}"),
    (r"truth-(?P<stage>.+)", "{stage}/broker-*"),
    # Read from the two brokers that stood while the third, killed as the old leader, was down; then both were stopped.
    (r"truth-after-\d+", "diverged/broker-*-stopped"),
    (r"(?P<stage>round-\d+)-truth", "{stage}-recovered-running"),
)
# After the last of several rounds the same log was copied once more, from the stopped broker.
_ROUND = re.compile(r"round-\d+-truth")
_AFTER_LAST_ROUND = "final-stopped"
# A directory of dumps by Kafka's own tool, relative to its case, and the log directory that was dumped.
_GOLDEN_RULES = (
    (r"(?P<stage>.+/)?(?:golden|dump)", "{stage}logdir"),
    (r"golden-(?P<stage>.+)", "{stage}"),
    (r"golden-(?P<stage>.+)", "base-{stage}"),
    (r"golden/(?P<stage>.+)", "{stage}"),
)
_GOLDEN = re.compile(r"(?P<partition>.+?)\.(?:(?:idx|decoded)\.)?(?:dump|\d+(?:\.\d+)+)\.txt\.gz")


def case_of(path: PurePosixPath) -> PurePosixPath:
    """The case that a path of the corpus tree belongs to."""
    return PurePosixPath(*path.parts[:2])


def truths(files: Collection[str], directories: Iterable[PurePosixPath]) -> dict[PurePosixPath, str]:
    """File of truth by partition directory; two for one directory would be a fault of the rules."""
    by_case: dict[PurePosixPath, list[PurePosixPath]] = defaultdict(list)
    for directory in directories:
        by_case[case_of(directory)].append(directory)
    paths = [PurePosixPath(name) for name in sorted(files) if name.endswith(".jsonl.gz")]
    paths = [path for path in paths if path.name == RECORDS or path.name in BARE_TRUTHS]
    rounds = {case_of(path): path.parts[2] for path in paths if _ROUND.fullmatch(path.parts[2])}
    found: dict[PurePosixPath, str] = {}
    for path in paths:
        case = case_of(path)
        for pattern in _read_directories(path.relative_to(case), rounds.get(case)):
            for directory in by_case[case]:
                if not fnmatch.fnmatchcase(str(directory.relative_to(case)), pattern):
                    continue
                if directory in found:
                    message = f"two truths for {directory}: {found[directory]} and {path}"
                    raise ValueError(message)
                found[directory] = str(path)
    return found


def _read_directories(path: PurePosixPath, last_round: str | None) -> Iterator[str]:
    """Globs, relative to the case, of the partition directories that a file of truth is about."""
    if path.name in BARE_TRUTHS:
        yield f"{path.parent}/{BARE_TRUTHS[path.name][0]}/*"
        return
    partition = path.parent.name
    where = str(path.parents[1])
    for log_dir in _stages(_TRUTH_RULES, where):
        yield f"{log_dir}/{partition}"
    if where == last_round:
        yield f"{_AFTER_LAST_ROUND}/{partition}"


def _stages(rules: Iterable[tuple[str, str]], where: str) -> Iterator[str]:
    for rule, log_dir in rules:
        if match := re.fullmatch(rule, where):
            yield log_dir.format(stage=match.groupdict().get("stage") or "")


def goldens(files: Collection[str], directories: Collection[PurePosixPath]) -> dict[PurePosixPath, list[str]]:
    """Texts of the dump tool by partition directory."""
    by_parent: dict[PurePosixPath, list[PurePosixPath]] = defaultdict(list)
    for directory in directories:
        by_parent[directory.parent].append(directory)
    known = set(directories)
    found: dict[PurePosixPath, list[str]] = defaultdict(list)
    for name in sorted(name for name in files if name.endswith(".txt.gz")):
        path = PurePosixPath(name)
        if not (match := _GOLDEN.fullmatch(path.name)):
            continue
        case = case_of(path)
        # Beside the copies of a single partition a dump is named after the copy.
        dumped = list(by_parent.get(path.parents[1] / match["partition"], ()))
        where = str(path.parent.relative_to(case))
        dumped += [case / log_dir / match["partition"] for log_dir in _stages(_GOLDEN_RULES, where)]
        for directory in known.intersection(dumped):
            found[directory].append(name)
    return found
