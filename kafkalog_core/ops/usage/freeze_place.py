"""Whether a directory can hold hard links to the files of a log directory, and which one can if it cannot."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.command_lines import shell_line, shell_path
from kafkalog_core.errors import RefusedError
from kafkalog_core.ops.usage.frozen_dir import MANIFEST
from kafkalog_core.refusals import Refusal, WayOut
from kafkalog_core.storage.access import may
from kafkalog_core.storage.changing.space import broker_dir_around, existing_directory
from kafkalog_core.storage.changing.writer import WriteError
from kafkalog_core.text import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from kafkalog_core.ops.usage.freezing import ChosenDir
    from kafkalog_core.ops.usage.frozen_dir import FrozenDir
    from kafkalog_core.storage.changing.writer import Disk

__all__ = ["check_links", "check_place"]

_LINK_OF_TEST: Final = "kafkalog-link.tmp"


def check_place(to: str, dirs: Sequence[ChosenDir], paths: Sequence[str], options: Sequence[str]) -> None:
    """Raise RefusedError for a directory that cannot hold links to these, with a directory that can.

    Args:
        to: path of the directory, which need not exist yet.
        dirs: the partition directories, of at least one file each.
        paths: the paths of the command line, for the command that is shown.
        options: its options besides --to.
    """
    real = os.path.realpath(to)
    problem = next(_problems(to, real, dirs), None)
    device = os.stat(existing_directory(real)).st_dev
    others = [each for each in dirs if each.place.device != device]
    if problem is None and not others:
        return
    if problem is None:
        where = "on another file system than" if len(others) == len(dirs) else "on another file system than some of"
        problem = f"is {where} the files, and a hard link cannot lead from one to another"
    raise RefusedError(Refusal(problem, tuple(_ways(to, dirs, paths, options))), path=to)


def _problems(to: str, real: str, dirs: Sequence[ChosenDir]) -> Iterator[str]:
    parent, is_begun = os.path.dirname(real), os.path.isfile(f"{real}/{MANIFEST}")
    # With the metadata log in it, the directory of an earlier run looks like the log directory of a controller.
    around = broker_dir_around(existing_directory(parent if is_begun else real))
    roots = {os.path.dirname(each.path) for each in dirs} | {each.path for each in dirs}
    within = around or next((root for root in roots if real == root or real.startswith(f"{root}/")), None)
    if within is not None:
        # LocalLog.parseTopicPartitionName: a directory with another name stops the broker at its next start.
        yield f"is in a log directory, {within}, where a directory that is not a partition stops the broker"
    if os.path.lexists(to) and not os.path.isdir(real):
        yield "is not a directory"
    elif not os.path.isdir(parent):
        yield f"there is no directory {parent} to create it in"
    elif not may(real if os.path.isdir(real) else parent, os.W_OK | os.X_OK):
        yield "no permission to write there; run this as the user of the broker, or as root"
    elif os.path.isdir(real) and os.listdir(real) and not is_begun:
        yield "holds files that no kafkalog freeze has put there"


def _ways(to: str, dirs: Sequence[ChosenDir], paths: Sequence[str], options: Sequence[str]) -> Iterator[WayOut]:
    """Yield a command for each file system: with a directory there that can hold the links, or a copy."""
    # A copy, which may be the way out, must not be in a log directory either.
    copies = "DIR" if broker_dir_around(existing_directory(os.path.realpath(to))) else shell_path(to)
    by_device: dict[int, list[ChosenDir]] = {}
    for each in dirs:
        by_device.setdefault(each.place.device, []).append(each)
    for of_device in by_device.values():
        roots = sorted({os.path.dirname(each.path) for each in of_device})
        place = _near(roots[0], os.path.basename(to) or "frozen")
        named = paths if len(by_device) == 1 else roots
        which = "" if len(by_device) == 1 else f" of {roots[0]}"
        if place is not None:
            words = ["kafkalog", "freeze", *named, *options, "--to", place]
            yield WayOut(f"name a new directory on the file system{which}", shell_line(words))
        else:
            sources = " ".join(shell_path(each.path) for each in of_device[:3])
            more = f" (and {count_of(len(of_device) - 3, 'other')})" if len(of_device) > 3 else ""
            yield WayOut(
                f"no directory outside of {roots[0]} is on its file system, so copy instead{more}",
                f"mkdir -p {copies} && cp -a -- {sources} {copies}",
            )


def _near(root: str, name: str) -> str | None:
    """Return the path of a new directory on the file system of a log directory, and outside of it; None: none."""
    device, place = os.stat(root).st_dev, root
    while place != os.path.dirname(place):
        place = os.path.dirname(place)
        if os.stat(place).st_dev != device:
            return None
        if broker_dir_around(place) is None and may(place, os.W_OK | os.X_OK):
            path, number = f"{place.rstrip('/')}/{name}", 1
            while os.path.lexists(path):
                number += 1
                path = f"{place.rstrip('/')}/{name}-{number}"
            return path
    return None


def check_links(
    to: FrozenDir, dirs: Sequence[ChosenDir], paths: Sequence[str], options: Sequence[str], disk: Disk
) -> None:
    """Raise RefusedError if the system refuses the first link: across mounts of one file system, or by its rules.

    Then nothing is left of a directory that was just made.
    """
    file = dirs[0].files[0].info
    path = f"{to.path}/{_LINK_OF_TEST}"
    if os.path.lexists(path):
        disk.unlink(path)
    try:
        is_linked = disk.link(file.path, path)
    except WriteError:  # it vanished meanwhile: the links themselves show what is possible
        return
    if is_linked:
        disk.unlink(path)
        return
    to.discard()
    if os.geteuid() not in {0, file.uid}:
        # fs.protected_hardlinks (Linux): others may only link files that they may write.
        reason = (
            f"the system refuses a hard link to {file.path}, which another user owns; run this as that user, or as root"
        )
        raise RefusedError(reason, path=to.path)
    reason = f"the system refuses a hard link from here to {file.path}: the two are on different mounts"
    raise RefusedError(Refusal(reason, tuple(_ways(to.path, dirs, paths, options))), path=to.path)
