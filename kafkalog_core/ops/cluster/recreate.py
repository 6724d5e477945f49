"""`kafkalog cluster --recreate`: what builds the cluster of the disks again, as a script or as resources."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Literal, TypeAlias

from kafkalog_core.kafka.sim.copies import check_one_cluster
from kafkalog_core.kafka.sim.named_dirs import identity_of
from kafkalog_core.ops.cluster.cluster import disks_of, log_dirs_of, read_newest
from kafkalog_core.ops.cluster.recreate_shell import Volume, printable, recreate_shell
from kafkalog_core.ops.cluster.recreate_strimzi import recreate_strimzi
from kafkalog_core.ops.cluster.zookeeper_reading import ZookeeperReading, read_zookeeper

if TYPE_CHECKING:
    from collections.abc import Iterator

    from kafkalog_core.kafka.sim.metadata_log import MetadataReading
    from kafkalog_core.ops.cluster.cluster import ClusterDisks
    from kafkalog_core.ops.cluster.request import ClusterRequest

__all__ = ["Form", "Recreation"]

Form: TypeAlias = Literal["shell", "strimzi"]
"""A shell script of Kafka's tools, or resources of Strimzi."""


class Recreation:
    """What is written, and whether the image that it comes from is whole.

    Raises SelectionError, RefusedError for disks of two clusters, and StorageError.

    Args:
        request: the disks, and the moment of the image.
        form: a shell script of Kafka's tools, or resources of Strimzi.
        with_assignments: whether the script places each replica on the node that had it.
    """

    def __init__(self, request: ClusterRequest, form: Form, *, with_assignments: bool) -> None:
        self._reading: MetadataReading | ZookeeperReading
        if request.zookeeper_dirs:
            disks = log_dirs_of(request)
            self._reading = read_zookeeper(request, [*disks.log_dirs])
        else:
            disks = disks_of(request)
            if disks.logs:
                dirs = {*disks.log_dirs, *(os.path.dirname(path) for path in disks.logs)}
                check_one_cluster(sorted(dirs), "kafkalog cluster", "whose topics must not be mixed")
            self._reading, _ = read_newest(disks, request.until)
        self._volumes = [*_volumes(disks)]
        self._form = form
        self._with_assignments = with_assignments

    @property
    def problem(self) -> str | None:
        """What is missing in the image, as a sentence; None: it is whole."""
        return None if self._reading.is_whole else _problem(self._reading)

    def text(self) -> Iterator[str]:
        """Yield the text in pieces."""
        reading = self._reading
        source = reading.source
        if self.problem is not None:
            source = f"{source}. {self.problem}"
        if self._form == "shell":
            yield from recreate_shell(
                reading.image, self._volumes, source=source, with_assignments=self._with_assignments
            )
        else:
            yield from recreate_strimzi(reading.image, self._volumes, source=source)


def _volumes(disks: ClusterDisks) -> Iterator[Volume]:
    for path in disks.log_dirs:
        identity = identity_of(path)
        yield Volume(path, identity.node_id, identity.directory_id, identity.cluster_id)


def _problem(reading: MetadataReading | ZookeeperReading) -> str:
    if isinstance(reading, ZookeeperReading):
        detail = reading.findings[0].message if reading.findings else "a part is missing"
        return f"It is not whole: the tree of ZooKeeper cannot be restored ({printable(detail)})"
    detail = reading.damage[0].detail if reading.damage else "a part is missing"
    return f"It is not whole: what this log said from there on is missing here ({printable(detail)})"
