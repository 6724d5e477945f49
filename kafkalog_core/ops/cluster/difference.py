"""`kafkalog cluster --diff`: what two images have that the other has not, or has otherwise."""

from __future__ import annotations

import json
from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

from kafkalog_core.ops.cluster import image_rows as rows
from kafkalog_core.ops.cluster.cluster import (
    count_read,
    disks_of,
    log_dirs_of,
    read_newest,
    unread_files,
    unread_findings,
)
from kafkalog_core.ops.cluster.request import ChangeBasis
from kafkalog_core.ops.cluster.zookeeper_reading import read_zookeeper
from kafkalog_core.output import clusters, tables
from kafkalog_core.output.chunk import RowChunk

if TYPE_CHECKING:
    from collections.abc import Generator, Iterable, Iterator, Sequence

    from kafkalog_core.engine.report import Report
    from kafkalog_core.ops.cluster.request import ClusterRequest, Row
    from kafkalog_core.topics.cluster_image import ClusterImage

__all__ = ["cluster_differences", "differences"]

_HIDDEN: Final = "(hidden)"
_LEFT_OUT: Final = frozenset(("here", "other_ids", "paths", "last_leaders", "path", "end_offset", "configs", "acl_id"))
"""Columns that are about the disks, or that another row has too."""
_FOLLOWING: Final = frozenset(("leaders", "leaderless", "under_replicated", "partition_epoch"))
"""Columns that follow from others that are compared."""
_NOT_IN_ZOOKEEPER: Final = {
    "cluster_broker": (
        "epoch",
        "incarnation_id",
        "release",
        "features",
        "is_fenced",
        "in_controlled_shutdown",
        "log_dirs",
        "cordoned_log_dirs",
    ),
    "cluster_partition": ("elr", "last_known_elr", "directories"),
}
"""Columns of which ZooKeeper has nothing, or a value of its own: they differ always, which says nothing."""
_OF_QUORUM: Final = frozenset(("cluster_feature", "cluster_controller"))
"""Row types of which ZooKeeper has none, or other ones."""
_KEYS: Final = {
    "cluster_feature": ("name",),
    "cluster_broker": ("node_id",),
    "cluster_controller": ("node_id",),
    "cluster_topic": ("topic",),
    "cluster_partition": ("topic", "partition"),
    "cluster_config": ("resource_type", "resource", "name"),
    # Ids are made when an entry is added, and ZooKeeper has none: an entry is what it says.
    "cluster_acl": ("principal", "permission", "operation", "host", "resource_type", "resource", "pattern_type"),
    "cluster_quota": ("entity", "name"),
    "cluster_user": ("user", "mechanism"),
    "cluster_token": ("token_id",),
}
"""The columns that say which thing a row is about, by row type."""


def cluster_differences(
    first: ClusterRequest, second: ClusterRequest, report: Report
) -> Generator[RowChunk | ChangeBasis, None, None]:
    """Yield the differences of two images, and findings about what could not be read. Raises SelectionError."""
    images: list[ClusterImage] = []
    between: list[str] = []
    gaps: list[str] = []
    notes: list[str] = []
    findings: list[Row] = []
    for request in (first, second):
        if request.zookeeper_dirs:
            tree = read_zookeeper(request, [*log_dirs_of(request).log_dirs])
            images.append(tree.image)
            between.append(tree.source)
            gaps += [] if tree.is_whole else [f"TRANSACTIONS OF {tree.restored.data_dir.path} ARE MISSING"]
            findings += (finding.row() for finding in tree.findings)
            continue
        disks = disks_of(request)
        reading, _ = read_newest(disks, request.until)
        images.append(reading.image)
        between.append(reading.source)
        gaps += [] if reading.gap is None else [reading.gap]
        notes += unread_files(disks)
        count_read(report, reading)
        findings += unread_findings(reading)
    for row in findings:
        report.add_finding(row)
    yield ChangeBasis(between=tuple(between), gaps=tuple(gaps), notes=tuple(notes))
    found = tuple(differences(*images, topics=second.topics, shows_secrets=first.shows_secrets))
    report.rows += len(found)
    for table, each in ((clusters.CLUSTER_DIFFERENCE, found), (tables.FINDING, tuple(findings))):
        if each:
            yield RowChunk(table, each)


def differences(
    first: ClusterImage, second: ClusterImage, *, topics: Sequence[str] = (), shows_secrets: bool = False
) -> Iterator[Row]:
    """Yield what changes from one image to another, by row type and thing.

    Args:
        first: the image of before.
        second: the image of after.
        topics: globs of the topics whose changes are wanted; empty: all changes.
        shows_secrets: whether passwords and keys are shown.
    """
    before, after = _things(first, topics), _things(second, topics)
    is_mixed = first.is_of_zookeeper is not second.is_of_zookeeper
    for kind in _KEYS:
        if is_mixed and kind in _OF_QUORUM:
            continue
        skipped = _NOT_IN_ZOOKEEPER.get(kind, ()) if is_mixed else ()
        for what in sorted(before[kind].keys() | after[kind].keys()):
            one, other = before[kind].get(what), after[kind].get(what)
            row: Row = {"kind": kind, "what": what}
            if one is None or other is None:
                change = "added" if one is None else "removed"
                shown = [_whole(kind, each, shows_secrets=shows_secrets) for each in (one, other)]
                yield {**row, "change": change, "before": shown[0], "after": shown[1]}
                continue
            for column in dict.fromkeys((*one, *other)):
                values = one.get(column), other.get(column)
                if values[0] != values[1] and column not in skipped:
                    texts = [
                        _HIDDEN if _is_hidden(one, column) and not shows_secrets else _text(each) for each in values
                    ]
                    yield {**row, "change": "changed", "column": column, "before": texts[0], "after": texts[1]}


def _things(image: ClusterImage, topics: Sequence[str]) -> dict[str, dict[str, Row]]:
    """Return the rows of an image by row type, and by what they are about."""
    topic_ids = list(image.topics)
    found: dict[str, Iterable[Row]] = {
        "cluster_feature": rows.feature_rows(image),
        "cluster_broker": rows.broker_rows(image, {}, frozenset()),
        "cluster_controller": rows.controller_rows(
            image, {each.voter_id: each.directory_id for each in image.voters}, {}, frozenset()
        ),
        "cluster_topic": rows.topic_rows(image, topic_ids, {}, {}, {}),
        "cluster_partition": rows.partition_rows(image, topic_ids, {}, {}),
        # With secrets, so that a change of one is seen; it is not shown.
        "cluster_config": rows.config_rows(image, None, shows_secrets=True),
        "cluster_acl": rows.acl_rows(image),
        "cluster_quota": rows.quota_rows(image),
        "cluster_user": rows.user_rows(image, shows_secrets=True),
        "cluster_token": rows.token_rows(image),
    }
    return {
        kind: {
            _name(row, _KEYS[kind]): {name: value for name, value in row.items() if name not in _LEFT_OUT | _FOLLOWING}
            for row in each
            if not topics or any(fnmatchcase(_topic_of(row), glob) for glob in topics)
        }
        for kind, each in found.items()
    }


def _topic_of(row: Row) -> str:
    """Return the topic that a row is about; empty: it is about something else."""
    return str(row.get("topic") or (row["resource"] if row.get("resource_type") == "topic" else ""))


def _name(row: Row, keys: tuple[str, ...]) -> str:
    return " ".join(_text(row[key]) or "(all)" for key in keys)


def _is_hidden(row: Row, column: str) -> bool:
    return column in {"salt", "stored_key", "server_key"} or (column == "value" and bool(row.get("is_secret")))


def _whole(kind: str, row: Row | None, *, shows_secrets: bool) -> str | None:
    """Return what there is of a thing that one image lacks: all columns but those of its name."""
    if row is None:
        return None
    values = {name: _HIDDEN if _is_hidden(row, name) and not shows_secrets else value for name, value in row.items()}
    return _text({name: value for name, value in values.items() if name not in _KEYS[kind] and value not in (None, [])})


def _text(value: object) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
