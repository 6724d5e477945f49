"""The volumes of a catalogue after a run: which stay, which go, which are made anew out of others."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

from kafkalog_core.spark.census.driver import BATCHES_FOLDER, NOTES_FOLDER, volume_paths
from kafkalog_core.spark.census.tidy import MOST_SMALL, SMALL_BYTES, Source, bins, merge
from kafkalog_core.spark.commit import Part

if TYPE_CHECKING:
    from kafkalog_core.ops.pool import Workers
    from kafkalog_core.ops.progress import Progress
    from kafkalog_core.spark.census.driver import Census
    from kafkalog_core.spark.census.notes import SegmentKey
    from kafkalog_core.spark.census.volume import NewVolume
    from kafkalog_core.spark.commit import Commit, Output

__all__ = ["Shelf"]


class Shelf:
    """Decides what becomes of volumes when all partitions are read."""

    def __init__(self, census: Census, output: Output, workers: Workers | None) -> None:
        self._census = census
        self._output = output
        self._workers = workers
        self._known: dict[str, dict[str, Any]] = dict(output.state.get("volumes", {}))
        self._stay: dict[str, tuple[SegmentKey, ...]] = {}
        self._new: list[NewVolume] = []
        self._names: dict[str, NewVolume] = {}

    @property
    def has_news(self) -> bool:
        """Whether any volume comes or goes."""
        return bool(self._new) or self._stay.keys() != self._known.keys()

    def tidy(self, progress: Progress) -> None:
        """Make anew what has lost segments, and one of many small ones."""
        wanted: list[Source] = []
        small: dict[Source, str | NewVolume] = {}
        for name, known in self._known.items():
            keys = tuple(self._census.kept.get(name, ()))
            paths = volume_paths(self._output.path, name)
            source = Source(paths.batches, paths.notes, keys, known["bytes"])
            if keys and len(keys) < known["segments"]:
                wanted.append(source)
            elif keys:
                self._stay[name] = keys
                if source.size_bytes < SMALL_BYTES:
                    small[source] = name
        for volume in self._census.fresh:
            self._new.append(volume)
            source = self._staged(volume)
            if source.size_bytes < SMALL_BYTES:
                small[source] = volume
        if len(small) + len(wanted) > MOST_SMALL:
            for source, each in small.items():
                wanted.append(source)
                if isinstance(each, str):
                    del self._stay[each]
                else:
                    self._new.remove(each)
        self._new += self._merged(wanted, progress)

    def put(self, run: Commit, run_id: str) -> None:
        """Add what is new to a commit, and take away what goes."""
        for number, volume in enumerate(self._new):
            name = f"part-{run_id}-{number:05d}"
            self._names[name] = volume
            batches, notes = f"{BATCHES_FOLDER}/{name}.parquet", f"{NOTES_FOLDER}/{name}.parquet"
            run.add(Part(volume.batches, batches, volume.rows, volume.batches_bytes))
            run.add(Part(volume.notes, notes, len(volume.keys), volume.notes_bytes))
        for name in self._known.keys() - self._stay.keys():
            run.remove(f"{BATCHES_FOLDER}/{name}.parquet")
            run.remove(f"{NOTES_FOLDER}/{name}.parquet")

    def volumes(self) -> dict[str, dict[str, int]]:
        """What the next run is to know of the volumes; asked when they are put."""
        volumes = {name: self._known[name] for name in self._stay}
        for name, volume in self._names.items():
            volumes[name] = {"segments": len(volume.keys), "bytes": volume.batches_bytes + volume.notes_bytes}
        return volumes

    def places(self) -> dict[str, list[str]]:
        """In which volumes each partition has segments; asked when they are put."""
        places: dict[str, dict[str, None]] = defaultdict(dict)
        for name, keys in self._stay.items():
            for key in keys:
                places[key.directory][name] = None
        for name, volume in self._names.items():
            for key in volume.keys:
                places[key.directory][name] = None
        return {directory: [*names] for directory, names in places.items()}

    def _staged(self, volume: NewVolume) -> Source:
        staging = self._census.staging
        size_bytes = volume.batches_bytes + volume.notes_bytes
        return Source(f"{staging}/{volume.batches}", f"{staging}/{volume.notes}", volume.keys, size_bytes)

    def _merged(self, wanted: list[Source], progress: Progress) -> list[NewVolume]:
        staging = self._census.staging
        if self._workers is None:
            return [merge(some, staging, progress.advance) for some in bins(wanted)]
        return [*self._workers.map(merge, ((some, staging) for some in bins(wanted)))]
