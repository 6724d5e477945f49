"""Where a repair works: one log directory with some of its partitions, or one partition directory outside of any.

A plan is made for a site, is applied to it under one lock, and is undone as a whole. All paths are absolute.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import DeniedError
from kafkalog_core.format.names import METADATA_TOPIC, DirectoryState, FileKind
from kafkalog_core.ops.releases.cluster_assignments import DirectoryOwners, metadata_path, read_topic_id
from kafkalog_core.ops.releases.cluster_dirs import NamedDirs, related_dirs
from kafkalog_core.ops.selecting.targets import FileTarget, LogDirTarget, PartitionTarget, resolve
from kafkalog_core.storage.listing import list_directory, stat_path
from kafkalog_core.storage.logdir import BROKER_KINDS, is_broker_dir, read_log_dir
from kafkalog_core.storage.rights import denial, may_list

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.findings import Finding
    from kafkalog_core.ops.selecting.targets import Target
    from kafkalog_core.storage.logdir import LogDir, PartitionPath

__all__ = ["Site", "not_assigned", "site_of", "sites_of"]

_TOP_KINDS: Final = BROKER_KINDS | {FileKind.KRAFT_SNAPSHOT}
"""Files at the top of a log directory that decide what a broker does with the partitions, without its lock."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Site:
    """What one plan is about.

    Args:
        root: the log directory, else the partition directory, else the directory of a file by itself.
        log_dir: as it was read; null: outside of any.
        partitions: directories that are meant as a whole.
        files: files that are meant by themselves, none of them in one of `partitions`.
        is_whole: the log directory with all that is in it.
        beside: all log directories that were named with it: others of the cluster may hold settings of its topics.
    """

    root: str
    log_dir: LogDir | None
    partitions: tuple[PartitionPath, ...]
    files: tuple[FileTarget, ...] = ()
    is_whole: bool = False
    beside: NamedDirs = field(default_factory=NamedDirs)

    @property
    def log_dir_path(self) -> str | None:
        """Path of the log directory; None: outside of any."""
        return None if self.log_dir is None else self.log_dir.path

    @property
    def paths(self) -> tuple[str, ...]:
        """What leads to the same site again."""
        if self.is_whole:
            return (self.root,)
        return (*(place.path for place in self.partitions), *(file.path for file in self.files))


def sites_of(targets: Iterable[Target]) -> list[Site]:
    """Return the sites of what a command line names, in its order; each log directory once.

    Raises DeniedError where this user may not read a file that a plan or a forecast depends on: one that is made from
    the rest would take what was not read for something that is not there.
    """
    found: dict[tuple[int, int], Site] = {}
    for target in targets:
        root = _root_of(target)
        status = stat_path(root)
        key = (status.st_dev, status.st_ino)
        known = found.get(key) or _empty(root, target)
        found[key] = replace(_with(known, target), beside=target.beside)
    sites = list(found.values())
    for site in sites:
        _check_rights(site)
    return sites


def _check_rights(site: Site) -> None:
    denials = (error for path, is_directory in _needed(site) if (error := denial(path, is_directory=is_directory)))
    first = next(denials, None)
    if first is None:
        return
    more = sum(1 for _ in denials)
    others = f", and the same is true of {more:,} more" if more else ""
    advice = f"kafkalog plans and forecasts nothing from a part of the files: {first.advice}"
    raise DeniedError(f"{first.message}{others}", advice, path=first.path, prefix=first.prefix)


def _needed(site: Site) -> Iterator[tuple[str, bool]]:
    """Yield the paths of Kafka's files that a plan reads, and whether they are directories."""
    directories = {place.path: None for place in site.partitions}
    if site.log_dir is not None:
        yield from ((file.path, False) for file in site.log_dir.files if file.name.kind in _TOP_KINDS)
        directories |= {place.path: None for place in site.log_dir.partitions if place.name.topic == METADATA_TOPIC}
    yield from ((file.path, False) for file in site.files)
    for directory in directories:
        if not may_list(directory):
            yield directory, True
            continue
        files = list_directory(directory).files
        yield from ((file.path, False) for file in files if file.name.kind is not FileKind.UNKNOWN)


def site_of(paths: Iterable[str], beside: Iterable[str] = ()) -> Site:
    """The one site that paths lead to, as `Site.paths` and `Site.beside.paths` gave them. Raises NotFoundError, ..."""
    return replace(sites_of(resolve(list(paths)))[0], beside=NamedDirs(beside))


def not_assigned(site: Site, server: Mapping[str, str], kafka: str | None) -> dict[str, Finding]:
    """Return what the metadata log assigns otherwise, by the path of the partition or log directory that it is about.

    Args:
        site: the partitions that are meant, and the log directory that they are in.
        server: the properties of the broker's server.properties that were given.
        kafka: the release of the broker; None: as the directory of the metadata log shows.
    """
    if site.log_dir is None:
        return {}
    own = site.log_dir.path
    _, dirs = related_dirs(own, site.beside, server)
    together = frozenset(each.path for each in dirs)
    owners = site.beside.once(("owners", together), lambda: DirectoryOwners(each.path for each in dirs))
    found = {own: owners.other_node(own)}
    assignments = owners.assignments(owners.of_same_node(own), kafka=kafka)
    if assignments is not None and found[own] is None:
        served = [place for place in site.partitions if place.name.state is DirectoryState.CURRENT]
        held = [(place, topic_id) for place in served if (topic_id := read_topic_id(place)) is not None]
        bare = [(place, None) for place in served if not os.path.lexists(metadata_path(place))]
        found |= {place.path: assignments.stray(place, topic_id) for place, topic_id in (*held, *bare)}
        found[own] = assignments.other_directory(own, held)
    return {path: finding for path, finding in found.items() if finding is not None}


def _root_of(target: Target) -> str:
    path = os.path.abspath(target.path)
    if isinstance(target, LogDirTarget):
        return path
    if isinstance(target, PartitionTarget):
        return os.path.abspath(target.log_dir) if target.log_dir is not None else path
    around = os.path.dirname(path)
    above = os.path.dirname(around)
    is_in_partition = target.partition is not None and not is_broker_dir(around)
    return above if is_in_partition and is_broker_dir(above) else around


def _empty(root: str, target: Target) -> Site:
    is_log_dir = isinstance(target, LogDirTarget) or is_broker_dir(root)
    return Site(root=root, log_dir=read_log_dir(root) if is_log_dir else None, partitions=())


def _with(site: Site, target: Target) -> Site:
    if isinstance(target, FileTarget):
        file = replace(target.file, path=_inside(site.root, target.path))
        return replace(site, files=(*site.files, replace(target, file=file)))
    if isinstance(target, PartitionTarget):
        return replace(site, partitions=(*site.partitions, _placed(site.root, target.place)))
    places = tuple(_placed(site.root, place) for place in target.partitions)
    return replace(site, partitions=(*site.partitions, *places), is_whole=site.is_whole or target.is_whole)


def _placed(root: str, place: PartitionPath) -> PartitionPath:
    return replace(place, path=_inside(root, place.path))


def _inside(root: str, path: str) -> str:
    """The path of the same thing that leads through the root; links may lead to it from elsewhere."""
    whole = os.path.abspath(path)
    if whole == root or root in {os.path.dirname(whole), os.path.dirname(os.path.dirname(whole))}:
        return whole
    real_root, real = os.path.realpath(root), os.path.realpath(whole)
    return os.path.normpath(os.path.join(root, os.path.relpath(real, real_root)))
