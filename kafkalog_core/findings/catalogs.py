"""Findings of a catalogue: what was there when it was made last, and is gone."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["CATALOGS"]

CATALOGS: Final = {
    "catalog.segments-deleted": FindingType(
        "info",
        "Since the last catalogue {count:,} segments went away from the start of the log: offsets {offset} to {last}, "
        "{size_bytes:,} bytes.",
        "Nothing: retention and the deletion of records do this.",
        "Nothing needs to be done. What retention does next: kafkalog retain.",
        "The log begins later than it did. Their rows leave the catalogue.",
    ),
    "catalog.segment-lost": FindingType(
        "warning",
        "This segment (offsets {offset} to {last}, {size_bytes:,} bytes) was in the last catalogue, and its file is "
        "gone, though the log begins before it.",
        "Nothing, as it does not know: a consumer goes on behind the gap.",
        "If the topic is compacted, the cleaner has merged it into the one before. If this is a follower, it may have "
        "cut its log. Else look for who deleted the file, and for the records on the other replicas: kafkalog spark "
        "replicas.",
        "Segments leave a log at its start. In its middle only the cleaner takes them away, at its end only a follower "
        "that cuts what its leader does not have.",
    ),
    "catalog.partition-gone": FindingType(
        "warning",
        "This partition ({segments:,} segments, {size_bytes:,} bytes) was in the last catalogue, and its directory is "
        "gone.",
        "Makes it anew, empty, where the cluster still assigns it here, and fetches it from the leader.",
        "If its topic was deleted or the partition moved to another disk or broker, nothing needs to be done.",
        "A directory that is given to the catalogue, and no longer has a partition that it had.",
    ),
}
