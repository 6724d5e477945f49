"""A partition in two log directories of one broker, which starts with neither: which copy makes way.

Seen of 4.3.1: "Duplicate log directories for ... are found in both" (`LogManager.loadLog`), and the process ends. With
one of the two out of its log directory it starts, whichever directory the metadata log assigns the partition to, and
serves the other. `kafkalog replicas` compares copies, and decides by leader epochs which history the cluster has
continued. Where the copy to keep has every record of the other one, nothing is lost by moving that. Where each has
records that the other has not, a person decides.

A plan changes files, and no change of files takes a directory away. So the finding has the command that moves it.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_path
from kafkalog_core.engine.targets import resolve
from kafkalog_core.errors import KafkalogError
from kafkalog_core.findings.kinds import MOVE_DIRECTORY
from kafkalog_core.format.layout import MAX_BATCH_BYTES
from kafkalog_core.ops.copies.compare import ReplicaTask, compare
from kafkalog_core.ops.copies.verdict import places_of
from kafkalog_core.progress import NO_PROGRESS
from kafkalog_core.storage.paths import is_directory
from kafkalog_core.structs import replace
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterable

    from kafkalog_core.findings import Finding

__all__ = ["IN_TWO_DIRS", "with_copy_to_move"]

IN_TWO_DIRS: Final = "dir.in-two-log-dirs"


def with_copy_to_move(finding: Finding, log_dirs: Iterable[str]) -> Finding:
    """Return a finding about a partition in two log directories with the copy that makes way, or why none does.

    Args:
        finding: its path is one of the two directories.
        log_dirs: paths of all log directories of the broker.
    """
    name = os.path.basename(finding.path)
    paths = [path for log_dir in log_dirs if is_directory(path := f"{log_dir}/{name}")]
    words = " ".join(map(shell_path, paths)).replace("{", "{{").replace("}", "}}")
    undecided = replace(
        finding,
        cure="Decide which copy to keep, and move the other one out of its log directory.",
        next_step=f"kafkalog replicas {words}",
    )
    try:
        places, _ = places_of(resolve(paths))
    except KafkalogError:  # one of them cannot be read, which other findings report
        return undecided
    copies = places.get((finding.topic or "", finding.partition or 0), [])
    task = ReplicaTask(
        topic=finding.topic or "",
        partition=finding.partition or 0,
        places=tuple(copies),
        max_batch_bytes=MAX_BATCH_BYTES,
    )
    compared = compare(task, NO_PROGRESS.advance)
    keep = compared.replica.get("keep")
    others = [row for row in compared.copies if row["path"] != keep]
    if keep is not None and len(others) == 1 and not others[0]["only_here"]:
        lacks = compared.replica["log_end_offset"] - others[0]["log_end_offset"]  # type: ignore[operator]
        more = f", and {count_of(lacks, 'offset')} more" if lacks else ""
        return replace(
            finding,
            path=str(others[0]["path"]),
            message=f"The partition is also in {keep}, which has every record of this copy{more}.",
            cure="Move this copy out of the log directory, where it is kept, and run recover again.",
            next_step=MOVE_DIRECTORY,
        )
    return replace(undecided, message=f"{finding.message} {compared.replica['reason']}")
