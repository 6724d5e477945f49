"""Findings about several log directories of a broker, about who may open their files, and about what is at risk."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import FindingType

__all__ = ["BROKER_DIRS"]

_OTHER_BROKERS: Final = (
    "Verify the directories of each broker by themselves. If they are of one, put back the right meta.properties."
)

BROKER_DIRS: Final = {
    "dir.other-cluster": FindingType(
        "error",
        "Its cluster.id is {value}, that of {other} is {other_value}.",
        "Does not start with both.",
        _OTHER_BROKERS,
        "All log directories of a broker are of one cluster.",
    ),
    "dir.other-node": FindingType(
        "info",
        "Its {key} is {value}, but that of {other} is {other_value}: the directories belong to two brokers, or one "
        "of the two ids is wrong. The disks do not show which. Each is checked as a separate broker.",
        "Starts with its own directories, if the directories belong to two brokers. A broker that has both in "
        "log.dirs does not start.",
        "Nothing needs to be done for two brokers. If both directories are in log.dirs of one broker, put the id of "
        "that broker into both meta.properties.",
        "Log directories of several brokers were named together, or a broker's meta.properties has a wrong id.",
    ),
    "dir.same-directory-id": FindingType(
        "error",
        "Its directory.id, {value}, is that of {other} too.",
        "Does not start with both.",
        "If one is a copy of the other, keep one of them. If only meta.properties was copied, delete the line "
        "directory.id "
        "in the copy: the broker makes a new one.",
        "Each log directory has an id of its own.",
    ),
    "dir.without-directory-id": FindingType(
        "warning",
        "It has no directory.id, and {other} has one.",
        "Makes one at its next start; until its partitions are assigned anew they are offline.",
        "Put the line back: the cluster knows where partitions are by this id.",
        "A broker of 3.7 or later gives all its log directories an id at the same start.",
    ),
    "dir.unclean-beside-clean": FindingType(
        "warning",
        "It has no mark of a clean stop, and {other} has one.",
        "Recovers this directory alone.",
        "Look into the broker's log why it could not be closed: a disk that failed, or the file was deleted.",
        "A broker that is stopped marks all its log directories, but those that had failed.",
    ),
    "dir.in-two-log-dirs": FindingType(
        "error",
        "The partition is in {other} too.",
        "Does not start: a partition may be in one log directory alone.",
        "Compare the two, and move one out of the log directory.",
        "One broker has a partition twice, e.g. after it was copied from disk to disk by hand.",
    ),
    "dir.interrupted": FindingType(
        "error",
        "An earlier run stopped in the middle: {what} ({run}) has changed some of its files and not the others. Finish "
        "it or take it back before anything else: {ways}.",
        "Starts on the files as they are, half of them changed, and may delete or truncate what the run was to keep.",
        "Run the next command before the broker starts, and verify again: other findings here may only show that the "
        "run did not end.",
        "A journal says that a repair was interrupted, by a kill, a full disk or a loss of power. Every file is as "
        "before or as afterwards, and the journal holds what it takes to finish the repair or to take it back.",
    ),
    "dir.moving": FindingType(
        "info",
        "A copy of the partition in {other} that is being filled here.",
        "Goes on with it, and puts it in the place of the other.",
        "Nothing has to be done.",
        "A partition moves from one log directory of the broker to another.",
    ),
    "dir.second-metadata-log": FindingType(
        "error",
        "The metadata log is in {other} too.",
        "Does not start: it may be in the one metadata log directory alone.",
        "Move the one that is not in metadata.log.dir (else the first of log.dirs) out of its log directory.",
        "A KRaft broker has one metadata log.",
    ),
    "dir.no-permission": FindingType(
        "error",
        "Its permissions ({mode}) do not let its owner {refused}.",
        "The whole log directory goes offline.",
        "Give its owner the permissions to read, write and enter it: chmod u+rwx.",
        "A broker makes, renames and deletes files in its directories.",
    ),
    "dir.foreign-owner": FindingType(
        "error",
        "It belongs to user {uid}, and most of what is around it to user {broker_uid}, who may not {refused}.",
        "Runs as one of the two: the whole log directory goes offline.",
        "Give it, and all in it, the owner of the directories beside it: chown -R.",
        "A directory that somebody else than the broker's user has made, e.g. root with a copy or a restore.",
    ),
    "file.not-writable": FindingType(
        "error",
        "Its permissions ({mode}) do not let its owner write it.",
        "Opens it to write and may not: the whole log directory goes offline.",
        "Give its owner the permission to write it: chmod u+w.",
        "A broker opens logs and indexes to write, closed ones too. The superuser may all the same.",
    ),
    "file.no-access": FindingType(
        "error",
        "It belongs to user {uid}, with permissions {mode}: user {broker_uid}, who owns what is beside it, may not "
        "{refused} it.",
        "Runs as one of the two and may not open it: the whole log directory goes offline.",
        "Give it the owner of the files beside it.",
        "A file that somebody else than the broker's user has made, e.g. a tool that was run as root.",
    ),
    "dir.read-only-mount": FindingType(
        "info",
        "The file system is mounted read-only.",
        "Does not start on it: the whole log directory goes offline.",
        "If nobody mounted it so on purpose, look into the system's log: Linux does so after errors of the disk.",
        "Fine for looking at; a broker has to write.",
    ),
    "partition.at-risk": FindingType(
        "info",
        "A broker will recover {amount} in {segments}, from offset {offset} on (recovery point: {recovery_point}).",
        "Reads all of it at its next start and cuts it at the first bad batch, with every later segment.",
        "Nothing has to be done if nothing in it is damaged.",
        "After an unclean stop a broker trusts only what lies below the segment that holds the recovery point.",
    ),
    "segment.redpanda": FindingType(
        "error",
        "A file of Redpanda, whose log is another format than Kafka's.",
        "Does not start where it cannot read an offset from the name; never reads the file.",
        "Move it out of the partition directory.",
        "Redpanda names its files offset-term-version; no release of Kafka reads them.",
    ),
    "partition.no-companions": FindingType(
        "warning",
        "All of its {count} segments are without an offset index.",
        "Recovers every segment: builds the indexes anew, and cuts each log at its first bad batch.",
        "Copy the indexes too. Else verify the partition, and let the broker build them if its logs are whole.",
        "Log files that were copied without the files beside them.",
    ),
}
