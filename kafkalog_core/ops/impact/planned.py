"""The log directory that a plan would leave: links to the files that it keeps, and the new content of the others.

Nothing is written to the disk itself: links and new files are in a temporary directory, which its context removes. A
log that the plan truncates is a link to the whole file, with the size that it would have.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import RefusedError, StorageError
from kafkalog_core.ops.planners import planner_of
from kafkalog_core.ops.repair.apply import check_drift, replan
from kafkalog_core.refusals import Refusal
from kafkalog_core.storage.changing.changes import DryRunStage, pieces
from kafkalog_core.storage.listing import list_directory
from kafkalog_core.storage.partition import partition_of
from kafkalog_core.structs import Struct, field, replace

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.ops.planners import StoredPlan
    from kafkalog_core.progress import Progress
    from kafkalog_core.storage.changing.changes import Change
    from kafkalog_core.storage.listing import FileInfo
    from kafkalog_core.storage.partition import Partition

__all__ = ["DirState", "copied", "planned_dir"]

_PREFIX: Final = "kafkalog-impact-"
_NEW: Final = "new"
_LOG: Final = ".log"
_SKIPPED: Final = frozenset({".lock"})


class DirState(Struct, frozen=True, kw_only=True):
    """A log directory as it is or as a plan would leave it.

    Args:
        root: where to read it.
        origin: the path of the log directory itself; the same where no plan changes it.
        sizes: sizes of the logs that the plan truncates, by their paths below `root`.
        changed: paths of the files that the plan changes, below `origin`.
    """

    root: str
    origin: str
    sizes: Mapping[str, int] = field(default_factory=dict)
    changed: frozenset[str] = frozenset()

    def origin_of(self, path: str) -> str:
        """Return the path that a file or directory has, or would have, on the disk itself."""
        return f"{self.origin}{path.removeprefix(self.root)}" if path.startswith(self.root) else path

    def partition(self, path: str) -> Partition:
        """Read a partition directory, each log with the size that it would have. Raises StorageError."""
        listing = list_directory(path)
        files = (
            replace(file, size_bytes=min(file.size_bytes, self.sizes.get(file.path, file.size_bytes)))
            for file in listing.files
        )
        return partition_of(replace(listing, files=tuple(files)))


@contextmanager
def planned_dir(plan: StoredPlan, jobs: int, progress: Progress) -> Iterator[DirState]:
    """Yield the log directory as a plan would leave it.

    Raises what planning raises, and RefusedError if the same command would plan other changes now.
    """
    request = plan.request(jobs)
    root = request.target.root
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as around:
        stage = _KeepingStage(root, around)
        try:
            planner_of(plan.command)(request, stage, progress)
            check_drift(plan.changes, stage.changes, plan.command_line)
            top = f"{around}/{os.path.basename(root) or 'root'}"
            sizes = _build(root, top, stage.changes, stage.kept)
        except (TypeError, ValueError, LookupError, AttributeError, ArithmeticError) as error:
            reason = f"the plan has options that kafkalog {plan.command} does not have"
            raise RefusedError(Refusal(reason, (replan(plan.command_line),)), path=root) from error
        except OSError as error:
            raise StorageError(f"what the plan would write does not fit into a temporary file: {error}") from error
        changed = frozenset(change.path for change in stage.changes)
        yield DirState(root=top, origin=root, sizes=sizes, changed=changed)


@contextmanager
def copied(files: Iterable[FileInfo], name: str) -> Iterator[str]:
    """Yield a directory with logs of a partition, each no longer than it was listed.

    Args:
        files: the logs.
        name: of the directory.
    """
    with tempfile.TemporaryDirectory(prefix=_PREFIX) as around:
        place = f"{around}/{name}"
        os.mkdir(place)
        for file in files:
            target = f"{place}/{file.name.raw}"
            if os.stat(file.path).st_size <= file.size_bytes:
                os.symlink(os.path.abspath(file.path), target)
            else:
                _write(target, pieces(file.path, 0, file.size_bytes))
        yield place


class _KeepingStage(DryRunStage):
    """Keeps the new content of files in a directory, by their paths in `kept`."""

    def __init__(self, root: str, around: str) -> None:
        super().__init__(root, kept_bytes=0)
        self._directory = f"{around}/{_NEW}"
        os.mkdir(self._directory)
        self.kept: dict[str, str] = {}

    def _receive(
        self, path: str, content: Iterable[bytes | memoryview], like: str, mtime_ns: int | None
    ) -> tuple[int, str]:
        del like, mtime_ns
        place = self.kept[path] = f"{self._directory}/{len(self.kept)}"
        digest, size_bytes = hashlib.sha256(), 0
        with open(place, "wb") as file:
            for piece in content:
                digest.update(piece)
                file.write(piece)
                size_bytes += len(piece)
        return size_bytes, digest.hexdigest()

    def _discard(self, path: str) -> None:
        os.unlink(self.kept.pop(path))


def _write(path: str, content: Iterable[bytes | memoryview]) -> None:
    with open(path, "wb") as file:
        file.writelines(content)


def _build(root: str, top: str, changes: Iterable[Change], kept: Mapping[str, str]) -> dict[str, int]:
    """Make the directory `top` from the files of `root` and the changes; return the sizes of truncated files."""
    changed = {change.path: change for change in changes}
    around = {os.path.dirname(path) for path in changed}
    sizes: dict[str, int] = {}
    _fill(root, top, changed, sizes, around)
    for directory in sorted(around - {root}):
        place = f"{top}{directory.removeprefix(root)}"
        _fill(directory, place, changed, sizes, around)
    for path, new in kept.items():
        os.rename(new, f"{top}{path.removeprefix(root)}")
    return sizes


def _fill(directory: str, place: str, changed: Mapping[str, Change], sizes: dict[str, int], around: set[str]) -> None:
    """Link the entries of a directory that are kept."""
    os.makedirs(place, exist_ok=True)
    for name in os.listdir(directory) if os.path.isdir(directory) else ():
        path, change = f"{directory}/{name}", changed.get(f"{directory}/{name}")
        if name in _SKIPPED or path in around or (change is not None and change.kind != "cut"):
            continue
        if change is not None and change.size_bytes is not None and name.endswith(_LOG):
            sizes[f"{place}/{name}"] = change.size_bytes
        elif change is not None and change.size_bytes is not None:
            _write(f"{place}/{name}", pieces(path, 0, change.size_bytes))  # indexes are small, and read to their ends
            continue
        os.symlink(os.path.abspath(path), f"{place}/{name}")
