"""Which of the log directories that a command names together are of one broker or of one cluster.

meta.properties decides that. Directories that a command names together share what their cluster knows only where their
cluster.id is the same; those that `log.dirs` of a given server.properties lists share it unless their ids contradict
each other.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final

from kafkalog_core.errors import DeniedError, StorageError
from kafkalog_core.format.names import METADATA_TOPIC, FileKind, fixed_file_name, parse_file_name
from kafkalog_core.kafka.sim.logdir.faults import EntryFile
from kafkalog_core.kafka.sim.logdir.text_files import read_properties
from kafkalog_core.storage.access import denial, denied_above
from kafkalog_core.storage.listing import names_in
from kafkalog_core.storage.paths import is_directory, real
from kafkalog_core.structs import Struct

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from kafkalog_core.engine.named_dirs import NamedDirs
    from kafkalog_core.format.properties import PropertyFile

__all__ = [
    "ClusterDir",
    "Identity",
    "dirs_of_config",
    "identity_of",
    "listed_dirs",
    "metadata_dir_of",
    "node_of_config",
    "other_dirs",
    "other_node_of_config",
    "related_dirs",
    "unformatted_dirs",
]

_NODE: Final = ("node.id", "broker.id")
_DIRS: Final = ("log.dirs", "log.dir")
_GENERATED_ID: Final = "-1"
"""broker.id.generation.enable: the broker takes its id from ZooKeeper, and writes it into meta.properties alone."""
_READ: Final = frozenset({FileKind.LOG, FileKind.KRAFT_SNAPSHOT})
"""The files in the directory of the metadata log that settings are read from."""


class Identity(Struct, frozen=True):
    """The ids in the meta.properties of a log directory; None: unknown."""

    cluster_id: str | None = None
    node_id: str | None = None
    directory_id: str | None = None
    uses_zookeeper: bool = False


class ClusterDir(Struct, frozen=True):
    """A log directory of the same cluster; `is_same_broker`: of the same broker too."""

    path: str
    is_same_broker: bool


def _of_cluster(named: NamedDirs, own: Identity) -> Mapping[str, ClusterDir]:
    """Return the directories of the cluster that a directory is of, by their real paths; of an unknown one none.

    A directory without ids is of the one broker that the others are of, as in `across.brokers_of`.

    Raises DeniedError where this user may not read one of all the directories.
    """
    clusters = named.once(("clusters",), lambda: _clusters(named))
    only = _only_broker(clusters)
    if own.node_id is None and own.cluster_id in {None, only.cluster_id}:
        own = only
    if own.cluster_id is None:
        return {}
    nodes = clusters.get(own.cluster_id, {})
    others = named.once(("cluster", own.cluster_id), lambda: _together(nodes.values(), is_same_broker=False))
    same = [] if own.node_id is None else [nodes.get(own.node_id, {})]
    return others | named.once(("broker", own.cluster_id, own.node_id), lambda: _together(same, is_same_broker=True))


def _clusters(named: NamedDirs) -> dict[str, dict[str | None, dict[str, str]]]:
    """Return the paths of the directories that may be read, by cluster id, node id and real path."""
    clusters: dict[str, dict[str | None, dict[str, str]]] = {}
    unknown = {}
    for path in named.paths:
        _check_rights(path)
        identity = identity_of(path)
        if identity.cluster_id is None:
            unknown[real(path)] = path
        else:
            nodes = clusters.setdefault(identity.cluster_id, {})
            nodes.setdefault(identity.node_id, {}).setdefault(real(path), path)
    only = _only_broker(clusters)
    if only.cluster_id is not None:
        nodes = clusters[only.cluster_id]
        nodes[only.node_id] |= unknown | nodes.get(None, {})
    return clusters


def _only_broker(clusters: Mapping[str, Mapping[str | None, object]]) -> Identity:
    """Return the one broker that the named directories are of: one that has lost its ids is of it too."""
    brokers = [Identity(cluster, node) for cluster, nodes in clusters.items() for node in nodes if node is not None]
    return brokers[0] if len(brokers) == 1 else Identity()


def _together(groups: Iterable[Mapping[str, str]], *, is_same_broker: bool) -> dict[str, ClusterDir]:
    return {real: ClusterDir(path, is_same_broker) for group in groups for real, path in group.items()}


def identity_of(log_dir: str | None) -> Identity:
    """Return the identity of a log directory; one without a readable meta.properties has none."""
    if log_dir is None:
        return Identity()
    path = f"{log_dir}/{fixed_file_name(FileKind.META_PROPERTIES)}"
    try:
        text = read_properties(EntryFile(path=path, kind=FileKind.META_PROPERTIES))
    except StorageError:
        return Identity()
    if text is None:
        return Identity()
    node_id = _first(text.contents, _NODE)
    uses_zookeeper = text.contents.get("node.id") is None and text.contents.get("broker.id") is not None
    cluster_id, directory_id = text.contents.get("cluster.id") or None, text.contents.get("directory.id")
    return Identity(cluster_id, node_id, directory_id, uses_zookeeper)


def node_of_config(server: Mapping[str, str]) -> str | None:
    """Return the broker id in a server.properties; None: it has none, or ZooKeeper gives the broker one."""
    node_id = _first(server, _NODE)
    return None if node_id == _GENERATED_ID else node_id


def other_node_of_config(server: Mapping[str, str], own: Identity) -> str | None:
    """Return the broker id in a server.properties if it is not that of a log directory; None: they agree."""
    node_id = node_of_config(server)
    return None if _agree(node_id, own.node_id) else node_id


def related_dirs(
    log_dir: str | None, beside: NamedDirs, server: Mapping[str, str]
) -> tuple[Identity, tuple[ClusterDir, ...]]:
    """Return who a log directory belongs to, and the log directories of its cluster, its own first.

    Args:
        log_dir: path of it; None: the files are in no log directory.
        beside: the log directories that were named together with it; it may be one of them.
        server: of the server.properties that was given.

    Raises DeniedError where this user may not read what another log directory knows of the cluster: a default would
    silently replace a setting.
    """
    own = identity_of(log_dir)
    found = {} if log_dir is None else {real(log_dir): ClusterDir(log_dir, is_same_broker=True)}
    for path in dirs_of_config(server):
        _check_rights(path)
        other = identity_of(path)
        if _agree(own.cluster_id, other.cluster_id):
            same_node = _agree(own.node_id, other.node_id or node_of_config(server))
            found.setdefault(real(path), ClusterDir(path, is_same_broker=same_node))
    return own, tuple({**found, **_of_cluster(beside, own), **found}.values())


def other_dirs(log_dir: str | None, beside: NamedDirs, server: Mapping[str, str]) -> tuple[str, ...]:
    """Return the paths of the same broker's other log directories; the arguments are those of `related_dirs`.

    Nothing where this user may not read who one of them belongs to: what may not be read shows nothing.
    """
    if log_dir is None:
        return ()
    try:
        _, dirs = related_dirs(log_dir, beside, server)
    except StorageError:
        return ()
    return tuple(each.path for each in dirs if each.is_same_broker)[1:]  # the first is its own


def dirs_of_config(server: Mapping[str, str]) -> Iterator[str]:
    """Yield the log directories of a server.properties that are on this machine, with that of the metadata log."""
    for path in listed_dirs(server):
        if os.path.isdir(path) or denied_above(path) is not None:
            yield path


def unformatted_dirs(server: Mapping[str, str]) -> Iterator[str]:
    """Yield the log directories of a server.properties that are missing, or have no meta.properties."""
    for path in listed_dirs(server):
        is_there = os.path.isdir(path) or denied_above(path) is not None or os.path.lexists(path)
        is_empty = os.path.isdir(path) and not os.path.lexists(f"{path}/{fixed_file_name(FileKind.META_PROPERTIES)}")
        if is_empty or not is_there:
            yield path


def metadata_dir_of(server: Mapping[str, str]) -> str | None:
    """Return the log directory in which a server.properties has the metadata log (`KafkaConfig.metadataLogDir`)."""
    first = (_first(server, _DIRS) or "").split(",")[0].strip()
    path = server.get("metadata.log.dir") or first
    return path if os.path.isabs(path) else None


def listed_dirs(server: Mapping[str, str]) -> Iterator[str]:
    """Yield the absolute paths of the log directories of a server.properties, and that of the metadata log.

    `KafkaConfig.logDirs` reads log.dir only where there is no log.dirs.
    """
    listed = (_first(server, _DIRS) or "").split(",")
    yield from filter(os.path.isabs, map(str.strip, (*listed, server.get("metadata.log.dir") or "")))


def _check_rights(log_dir: str) -> None:
    """Raise DeniedError where this user may not read who a log directory belongs to, or its metadata log."""
    error = denied_above(log_dir) or denial(log_dir, is_directory=True)
    error = error or denial(f"{log_dir}/{fixed_file_name(FileKind.META_PROPERTIES)}")
    metadata_log = f"{log_dir}/{METADATA_TOPIC}-0"
    if error is None and is_directory(metadata_log):
        error = denial(metadata_log, is_directory=True)
        names = [] if error is not None else names_in(metadata_log)
        paths = (f"{metadata_log}/{name}" for name in sorted(names) if parse_file_name(name).kind in _READ)
        error = error or next((each for path in paths if (each := denial(path)) is not None), None)
    if error is not None:
        facts = f"{error.message}; nothing is planned or forecast without the settings of the cluster"
        raise DeniedError(facts, error.advice, path=error.path, prefix=error.prefix)


def _agree(one: str | None, other: str | None) -> bool:
    """Return whether two ids do not contradict each other."""
    return one is None or other is None or one == other


def _first(values: Mapping[str, str] | PropertyFile, names: Iterable[str]) -> str | None:
    return next((value for name in names if (value := values.get(name)) is not None), None)
