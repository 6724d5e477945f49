"""Broker messages about a log directory: meta.properties, directories in it, locks, disks and permissions."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["DIRECTORIES"]


_OFFLINE: Final = "Takes the whole log directory offline, and halts if it is the last one. Before 1.0 it halts."
_IO: Final = (
    "If it was loading or writing a log, takes the whole log directory offline, and halts if it is the last one."
)
"""The line may also be about a connection, a keystore, or the broker's own log files."""
_DISK: Final = ("dmesg | tail -50", "df -h {log_dir}", "df -i {log_dir}")
_OTHER_LINES: Final = "Read the first error before this line: it names the cause."
_META_FIX: Final = (
    "Write the values of the broker's other log directories into the file. Never invent a cluster.id or node.id."
)
_META: Final = ("kafkalog preflight {log_dir}", "kafkalog dump --files {log_dir}/meta.properties")

_LOG_DIR: Final = ("kafkalog preflight {log_dir}", "kafkalog recover {log_dir}")
_DIR: Final = ("kafkalog preflight {dir}", "kafkalog recover {dir}")

DIRECTORIES: Final = (
    BrokerMessage(
        "broker.meta-missing-kraft",
        "error",
        ("No `meta.properties` found in {dir} (have you run `kafka-storage.sh` to format the directory?)",),
        "{dir} has no meta.properties.",
        "The file was deleted, the disk is not mounted, or the directory is new.",
        "Does not start.",
        "First check whether the right disk is mounted. Then restore the file: kafkalog recover takes the ids from the "
        "broker's other log directories. Do not format the directory: kafka-storage.sh format gives it a new "
        "directory.id, with which a controller is not a voter.",
        ("meta.missing-kraft",),
        ("kafkalog recover {dir} OTHER_LOG_DIR",),
    ),
    BrokerMessage(
        "broker.meta-missing",
        "info",
        ("No meta.properties file under dir {path}",),
        "{path} does not exist yet.",
        "This is the first start of a ZooKeeper broker, or the file was deleted.",
        "Creates one with its broker.id.",
        "At a first start nothing needs to be done.",
        ("meta.missing",),
        ("kafkalog verify {log_dir}",),
    ),
    BrokerMessage(
        "broker.meta-unreadable",
        "error",
        (
            "Error while reading meta.properties file {path}",
            "Failed to read meta.properties file under dir {path} due to {reason}",
            "Failed to read meta.properties file under dir {path}",
            "Encountered I/O error in metadata log directory {dir}. Cannot continue.",
            "Failed to find required property {reason}.",
        ),
        "meta.properties could not be read, or lacks a required value ({path}).",
        "The file is empty, damaged, not a regular file, or not readable for the broker's user.",
        "Takes the log directory offline. If it is the metadata log's directory or the only one, it does not start.",
        _META_FIX,
        ("meta",),
        ("kafkalog recover {log_dir} OTHER_LOG_DIR", "kafkalog dump --files {log_dir}/meta.properties"),
    ),
    BrokerMessage(
        "broker.meta-no-node-id",
        "error",
        ("Error: node ID not found in {dir}",),
        "meta.properties of {dir} has no node.id (broker.id, if its version is 0 or missing).",
        "The file is empty, full of zeros, or lacks a line.",
        "Does not start.",
        _META_FIX,
        ("meta.no-version", "meta.no-broker-id"),
        ("kafkalog recover {dir} OTHER_LOG_DIR", "kafkalog dump --files {dir}/meta.properties"),
    ),
    BrokerMessage(
        "broker.meta-none",
        "error",
        ("No readable meta.properties files found.",),
        "Each of the log directories has no meta.properties, or one that the broker cannot read.",
        "The files were deleted or damaged, or the disks are not mounted. Lines before this one name the files that "
        "cannot be read.",
        "Does not start.",
        "First check whether the right disks are mounted. Then restore a file from a backup, or write it with the "
        "cluster.id of another node and the node.id of server.properties: kafkalog recover takes them from the "
        "broker's other log directories and from --config.",
        ("meta",),
        ("kafkalog preflight {log_dir}", "kafkalog recover {log_dir} OTHER_LOG_DIR"),
    ),
    BrokerMessage(
        "broker.cluster-id-mismatch",
        "error",
        (
            "Invalid cluster.id in: {path}. Expected {reason}, but read {other}",
            "The Cluster ID {other} doesn't match stored clusterId {reason} in meta.properties",
        ),
        "The log directory belongs to another cluster than the one that the broker joins.",
        "A disk of another cluster is mounted, the data of ZooKeeper or of the controllers was lost and created "
        "again, or zookeeper.connect has a wrong address.",
        "Does not start. It changes nothing on the disk.",
        "Find out which of the two is right. Do not delete meta.properties to avoid this error: in the wrong cluster "
        "the broker renames or deletes the partitions as strays.",
        ("meta",),
        _META,
    ),
    BrokerMessage(
        "broker.node-id-mismatch",
        "error",
        (
            "Stored node id {number} doesn't match previous node id {old} in {path}. If you moved your data",
            "Configured node.id `{number}` doesn't match stored node.id `{old}' in meta.properties",
            "Configured broker.id {number} doesn't match stored broker.id {reason} in meta.properties",
            "Configured brokerId {number} doesn't match stored brokerId {reason} in meta.properties",
        ),
        "node.id (broker.id) differs from the one of the log directory, or two log directories have different ones.",
        "Disks were swapped between brokers, or the configuration belongs to another broker.",
        "Does not start. It changes nothing on the disk.",
        "Put the disk into the broker whose id it has, or correct node.id (broker.id) in server.properties.",
        ("meta", "dir.other-node"),
        _META,
    ),
    BrokerMessage(
        "broker.meta-inconsistent",
        "error",
        (
            "BrokerMetadata is not consistent across log.dirs",
            "Duplicate directory ID {reason} found. It was the ID of {dir}, but also of {other}",
        ),
        "The log directories of this broker contradict each other.",
        "A directory was copied with its meta.properties, or belongs to another broker.",
        "Does not start.",
        "If the directory is a copy, remove the line directory.id from its meta.properties. If it belongs to another "
        "broker, remove it from log.dirs.",
        ("meta",),
        _META,
    ),
    BrokerMessage(
        "broker.not-a-partition",
        "error",
        (
            "Found directory {entry}, '{reason}' is not in the form of topic-partition",
            "Found directory {entry}, {reason} is not in the form of topic-partition",
        ),
        "The name of {entry}, a directory in a log directory, is not the name of a partition.",
        "The directory is lost+found at the root of a file system, .snapshot, a backup, or somebody created it.",
        "Does not start. Only directories of such names prevent it, not files.",
        "Move the directory out of the log directory. For lost+found, set log.dirs to a directory below the mount "
        "point.",
        ("dir.not-a-partition",),
        ("kafkalog preflight {log_dir}",),
    ),
    BrokerMessage(
        "broker.duplicate-partition",
        "error",
        (
            "Duplicate log directories for {partition} are found in both {partition_dir} and {other}. It is likely",
            "Duplicate log directories found: {partition_dir}, {other}!",
            "Duplicate log directories found: {partition_dir}, {other}",
        ),
        "{partition} exists twice: in {partition_dir} and in {other}.",
        "A move between log directories was interrupted, somebody restored a directory, or two names have the same "
        "number.",
        "Does not start.",
        "Find the complete directory (later end offset, later leader epochs) and move the other one out of the log "
        "directory.",
        ("dir.duplicate-partition",),
        ("kafkalog dump --segments {partition_dir} {other}",),
    ),
    BrokerMessage(
        "broker.lock-held",
        "error",
        ("Failed to acquire lock on file .lock in {dir}. A Kafka instance",),
        "Another process holds {dir}/.lock.",
        "A broker still runs there (it may be stopping), or another program that respects the lock.",
        "Does not start. It changes nothing.",
        "Find the process and let it end. Do not delete .lock: two brokers on one directory destroy it.",
        (),
        ("fuser -v {dir}/.lock",),
    ),
    BrokerMessage(
        "broker.lock-unsupported",
        "error",
        (
            "FileSystemException: {dir}/.lock: Invalid argument",
            "/.lock: Invalid argument",
            "IOException: No locks available",
        ),
        "The file system does not let the broker open or lock .lock in {dir}.",
        "The log directory is on a file system without locks: NFS without its lock service, or another network or "
        "shared file system. The records are not the cause.",
        "Takes the whole log directory offline, and halts if it is the last one.",
        "Put the log directory on a local disk, or mount the file system with locks (for NFS: version 4, or with the "
        "lock service of version 3). Do not delete .lock: the next start creates and locks it again.",
        (),
        ("df -T {log_dir}", "kafkalog verify {log_dir}"),
    ),
    BrokerMessage(
        "broker.bad-file-name",
        "error",
        ('NumberFormatException: For input string: "{reason}"', "NumberFormatException: {reason}"),
        'The broker expected a number, but found "{reason}".',
        "When logs are loaded this is a file in a partition directory, such as backup.log, whose name does not start "
        "with an offset. Or a line of leader-epoch-checkpoint or another checkpoint has a word instead of a number. If "
        "a line near it names a setting, the value of that setting is not a number.",
        "Does not start because of a file name, or of a leader-epoch-checkpoint. It takes another checkpoint for "
        "empty. The message does not name the file, but verify finds it.",
        "Move the file out of the partition directory, or correct the line of the checkpoint, or the setting.",
        ("segment.bad-name", "checkpoint.malformed-line", "snapshot.bad-name"),
        _LOG_DIR,
    ),
    BrokerMessage(
        "broker.no-space",
        "error",
        (
            "FileSystemException: {path}: No space left on device",
            "FileSystemException: {path}: Disk quota exceeded",
            "No space left on device",
            "Disk quota exceeded",
        ),
        "The disk is full.",
        "Records or inodes fill the disk, or a quota is reached.",
        _IO,
        "Free space outside the partitions first. Then shorten the retention of large topics. Never delete files of a "
        "partition by hand while the broker runs, and never delete its newest .log.",
        ("torn-tail",),
        ("df -h {log_dir}", "df -i {log_dir}", "kafkalog dump --segments {log_dir}"),
    ),
    BrokerMessage(
        "broker.index-fault",
        "error",
        (
            "a fault occurred in a recent unsafe memory access operation",
            "a fault occurred in an unsafe memory access operation",
        ),
        "The broker could not read or write a memory-mapped index.",
        "The disk fails or is full: an index is a memory map, for which a full disk has no page.",
        # LogManager.loadLogs takes a directory offline for an IOException alone, and this is none
        "If it was loading a log, it does not start.",
        "Look for errors of the disk. If there are some, copy the disk (ddrescue) before you try anything else. If the "
        "disk is full, free space.",
        ("unreadable", "file.not-readable"),
        ("dmesg | tail -50", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.disk-failing",
        "error",
        (
            "FileSystemException: {path}: Input/output error",
            "FileSystemException: {path}: Read-only file system",
            "FileNotFoundException: {path} (Read-only file system)",
            "Input/output error",
            "Structure needs cleaning",
            "Read-only file system",
            "Stale file handle",
            "Transport endpoint is not connected",
        ),
        "The operating system could not read or write the disk.",
        "The disk, its controller, the network storage or the file system fails.",
        "If it was recovering a log that the disk cannot read, it does not start. " + _IO,
        "Stop the broker. Copy the disk (ddrescue) before you try anything else, then repair the file system.",
        ("unreadable", "file.not-readable"),
        ("dmesg | tail -50", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.permission",
        "error",
        (
            "FileNotFoundException: {path} (Permission denied)",
            "AccessDeniedException: {path} -> {other}",
            "AccessDeniedException: {path}",
            "Could not read file {path}",
            "FileSystemException: {path}: Operation not permitted",
            "(Permission denied)",
            "IOException: Permission denied",
            "Operation not permitted",
        ),
        "The broker's user may not read or write {path}.",
        "Root created the file (a tool or a restore), or the mount options forbid it.",
        _IO,
        "Give the file the owner of the other files in the directory.",
        ("file.foreign-owner", "file.unreadable"),
        ("ls -ln {path}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.map-failed",
        "error",
        (
            "Map failed",
            "FileNotFoundException: {path} (Too many open files)",
            "FileSystemException: {path}: Too many open files",
            "Too many open files",
        ),
        "The operating system refused more mapped or open files.",
        "Each segment needs two maps and several open files, and each connection one: vm.max_map_count or the limit "
        "of open files is too low.",
        _IO + " The files are not damaged.",
        "Raise vm.max_map_count (262144 or more) and the limit of open files (100000 or more), then start.",
        ("dir.unclean",),
        ("sysctl vm.max_map_count", "kafkalog dump --segments {log_dir}"),
    ),
    BrokerMessage(
        "broker.dir-unusable",
        "error",
        (
            "Failed to create or validate data directory {dir}",
            "Failed to load {dir} during broker startup",
            "Disk error while locking directory {dir}",
            "FileSystemException: {dir}/meta.properties: Not a directory",
        ),
        "{dir} cannot be used as a log directory.",
        "It is not mounted, not a directory, belongs to another user, or the disk fails.",
        "Continues without it: its partitions are offline. Without any other directory it halts.",
        "Check the mount and the permissions, then start again.",
        ("dir.unreadable", "file.foreign-owner"),
        ("ls -ldn {dir}", "kafkalog verify {dir}"),
    ),
    BrokerMessage(
        "broker.all-dirs-failed",
        "error",
        (
            "Shutdown broker because all log dirs in {dirs} have failed",
            "Shutdown broker because none of the specified log dirs from {dirs} can be created or validated",
        ),
        "Every log directory failed, so the broker halted: {dirs}.",
        "One bad file is enough: an I/O error, or a file that the broker refuses, takes its whole directory offline.",
        "Halts without a clean shutdown. The files do not change.",
        _OTHER_LINES,
        ("dir.unclean",),
        ("kafkalog preflight {dirs}", "kafkalog recover {dirs}"),
        names_no_cause=True,
    ),
    BrokerMessage(
        "broker.metadata-dir-failed",
        "error",
        ("Shutdown broker because the metadata log dir {dir} has failed",),
        "The log directory with the metadata log, {dir}, failed, so the broker halted.",
        "One bad file is enough: an I/O error, or a file that the broker refuses, takes its whole directory offline.",
        "Halts without a clean shutdown. The files do not change.",
        _OTHER_LINES,
        ("dir.unclean",),
        _DIR,
        names_no_cause=True,
    ),
    BrokerMessage(
        "broker.dir-already-offline",
        "error",
        ("The log dir {dir} is already offline due to a previous IO exception",),
        "{dir} had failed before, so a later operation in it failed too.",
        "An earlier error in the same directory, for example an unreadable checkpoint.",
        "At the start it does not start.",
        _OTHER_LINES,
        ("checkpoint",),
        _DIR,
    ),
    BrokerMessage(
        "broker.dir-offline",
        "error",
        (
            "Stopping serving replicas in dir {dir} with uuid {reason} because the log directory has failed",
            "Stopping serving replicas in dir {dir} because the log directory has failed",
            "Stopping serving replicas in dir {dir}",
            "Stopping serving logs in dir {dir}",
            "Stopping cleaning logs in dir {dir}",
            "Stopped serving replicas in dir {dir}",
            "because they are in the failed log directory {dir}.",
            "are offline due to failure on log directory {dir}",
        ),
        "The log directory {dir} is offline, with all of its partitions.",
        "An I/O error, or a file of the directory that the broker refuses.",
        "Closes the partitions without flushing, and keeps the files. Other log directories continue. The directory "
        "is online again only after a restart.",
        _OTHER_LINES + " Repair the cause, then start the broker again.",
        ("checkpoint", "file.not-readable"),
        _DIR,
        names_no_cause=True,
    ),
    BrokerMessage(
        "broker.halted",
        "error",
        (
            "Halting broker because dir {dir} is offline",
            "Halting due to unrecoverable I/O error while handling {other} request",
            "Error writing to highwatermark file",
        ),
        "An operation on the disk failed, and the broker halted.",
        "The disk is full, read-only or failing. A release before 1.0, or one with an inter.broker.protocol.version "
        "below 1.0, does not continue without one of its log directories.",
        "Halts without a clean shutdown. The files do not change.",
        _OTHER_LINES,
        ("dir.unclean",),
        _DISK,
    ),
    BrokerMessage(
        "broker.describe-failed",
        "warning",
        ("Error while describing replica in dir {dir}", "Unable to describe replica dirs for {dir}"),
        "A request that lists the log directories (kafka-log-dirs.sh) found an error in {dir}.",
        "The directory is offline, or its file system cannot be queried: the exception after this line shows which.",
        "Answers with an error for that directory.",
        _OTHER_LINES,
        (),
        _DIR,
    ),
    BrokerMessage(
        "broker.dir-offline-told",
        "warning",
        (
            "Directories {other} in broker {broker} marked offline",
            (
                "Unable to bring up new local leader {partition} with topic id {reason} because it resides in an "
                "offline log dir"
            ),
            "Skipping creation of log because there are potentially offline log directories",
            "Can not create log for {partition} because log directories {dirs} are offline",
            "Can not create log {partition} because log directory {dir} is offline",
            "Unable to start fetching {partition} with topic ID {reason} due to NotLeaderOrFollowerException",
            "as the local replica for the partition is in an offline log directory",
            "since the replica for the partition is offline due to disk error {reason}",
            "Error while making broker the {other} for partition Topic: {reason} in dir None",
        ),
        "A partition remains offline because a log directory of its broker is offline.",
        "The log directory failed.",
        "Waits for the directory.",
        _OTHER_LINES,
    ),
    BrokerMessage(
        "broker.storage-error",
        "error",
        (
            "Unable to start fetching {partition} with topic ID {other} due to a storage error {reason}",
            "Unable to start fetching {partition} with topic id {other} due to a storage error {reason}",
            "Error while renaming dir for {partition} in log dir {dir}",
            "Error while renaming dir for {partition} in dir {dir}",
            "Error while creating log for {partition} in dir {dir}",
            "Error while appending records to {partition} in dir {dir}",
            "Error while flushing log for {partition} in dir {dir} with",
            "Error while rolling log segment for {partition} in dir {dir}",
            "Error while deleting segments for {partition} in dir {dir}",
            "Error while deleting all segments for {partition} in dir {dir}",
            "Error while deleting producer state snapshots for {partition} in dir {dir}",
            "Error while deleting producer state snapshot {reason} for {partition} in dir {dir}",
            "Error while taking producer state snapshot for {partition} in dir {dir}",
            "Error while flushing producer state snapshot {reason} for {partition} in dir {dir}",
            "Error while preparing active segment for close for {partition} in dir {dir}",
            "Error while closing log segments for {partition} in dir {dir}",
            "Error while fetching offset by timestamp for {partition} in dir {dir}",
            "Exception while increasing log start offset for {partition} to {offset} in dir {dir}",
            "Error while deleting the clean shutdown file in dir {dir}",
            "Error while deleting dir for {partition} in dir {dir}",
            "Error while deleting log for {partition} in dir {dir}",
            "Error while truncating log to offset {offset} for {partition} in dir {dir}",
            "Error while truncating the entire log for {partition} in dir {dir}",
            "Exception while reading from {partition} in dir {dir}",
            "Exception while deleting {other} in dir {dir}.",
        ),
        "A disk operation failed for {partition}.",
        "The disk fails or is full, permissions are missing, the target name exists, somebody deleted a file of the "
        "partition, or the log directory has failed before.",
        _OFFLINE,
        "Read the exception in the lines after this one, or the first error before it: one of them names the cause.",
        ("file.not-readable", "dir.future-beside-current"),
        ("dmesg | tail -50", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.atomic-move-failed",
        "warning",
        ("Failed atomic move of {path} to {other} retrying with a non-atomic move",),
        "{path} could not be renamed to {other} atomically.",
        "The file is no longer there: its partition is being deleted, a recovery that truncates the log has deleted "
        "the producer snapshot already, or somebody deleted the file. Or the target is a directory with files.",
        "Tries once more. If that fails too, a later line says so.",
        "Nothing needs to be done, if no error follows.",
        ("dir.future-beside-current",),
        ("kafkalog verify {log_dir}",),
    ),
    BrokerMessage(
        "broker.stray",
        "warning",
        (
            "Log in {other} marked stray and renamed to {partition_dir}",
            "Log for partition {partition} is marked as stray and renamed to {partition_dir}",
            "Found stray log dir {other}(dir={entry}, {reason}",
            "The topicId does not exist in {other}(dir={entry}, {reason}",
        ),
        "The broker did not recognize {path} as a partition that the cluster's metadata assigns to it.",
        "The topic was deleted or moved while the broker was down; the metadata log lost the topic, as after a "
        "truncation at damage; partition.metadata is missing; somebody put the directory here; or the broker joined "
        "another cluster.",
        "Renames the directory to end in -stray and serves no record of it. If the partition is assigned to it, it "
        "creates an empty one in its place. Releases before 3.7 rename the directory to end in -delete, and delete it "
        "after file.delete.delay.ms (1 minute).",
        "If you need the records, read them with kafkalog dump. If only partition.metadata was missing, stop the "
        "broker, move the new, empty partition directory out of the log directory, restore the file in the old one, "
        "and remove the suffix from its name.",
        ("dir.stray", "dir.not-assigned", "partition-metadata"),
        ("kafkalog dump --segments {place}",),
    ),
    BrokerMessage(
        "broker.stray-loaded",
        "info",
        ("Loaded stray log: {partition_dir}",),
        "The broker loaded {partition_dir}, which an earlier start renamed because the cluster's metadata did not "
        "assign the partition to this broker.",
        "The topic was deleted or moved, partition.metadata was missing, or somebody put the directory here.",
        "Keeps the directory, and serves no record of it. It loads it at each start: after a crash it may truncate it.",
        "If you need the records, copy the directory away, and read them with kafkalog dump. Else delete it.",
        ("dir.stray",),
        ("kafkalog dump --segments {place}",),
    ),
    BrokerMessage(
        "broker.partition-missing",
        "error",
        ("Expected partition {partition} with topic id {reason} to exist, but it was missing. Creating",),
        "The broker did not know {partition}, of which the metadata has it that it should: it opens its directory, or "
        "creates an empty one.",
        "Its directory was deleted or renamed, or is in an offline log directory. Or an error, such as a failed log "
        "directory, has ended the loading of the metadata before: then the line comes for every partition.",
        "Opens the directory, if there is one. Else it creates an empty one, even if the partition is in an "
        "offline log directory. A follower fetches the records from the leader.",
        "Look for the directory (-stray, -delete, another disk) before producers write to the new one. The next start "
        "refuses a partition in two log directories: move the empty one away.",
        ("dir.stray", "dir.delete"),
        ("kafkalog dump --segments {log_dir}",),
    ),
    BrokerMessage(
        "broker.log-truncation-refused",
        "error",
        (
            (
                "Halting because log truncation is not allowed for topic {reason}, Current leader {broker}'s latest "
                "offset {end}"
            ),
            (
                "Exiting because log truncation is not allowed for topic {reason}, Current leader {broker}'s latest "
                "offset {end}"
            ),
            "Exiting because log truncation is not allowed for partition {partition},",
        ),
        "This replica has more records than its leader, and the broker halted instead of truncating them.",
        "The leader lost the end of its log: an unclean election, or a disk that was restored from a backup.",
        "Halts. Both logs do not change.",
        "Compare the two replicas before you truncate one of them. kafkalog dump shows the records that only this one "
        "has.",
        (),
        ("kafkalog dump --segments {place}", "kafkalog dump --records --offsets {end}.. {place}"),
    ),
    BrokerMessage(
        "broker.future-replaced",
        "info",
        (
            "Attempting to recover abandoned future log for {partition} at {other}(dir={entry}, {reason}",
            "Attempting to replace current log {other} with Log(dir={entry}, {reason}) for {partition}",
            "The current replica is successfully replaced with the future replica for {partition}",
        ),
        "The copy of a move between log directories replaces the partition.",
        "The copy has reached the end of the partition, or the metadata assigns the partition to its log directory.",
        "Renames the copy to the plain name, and the old directory to end in -delete.",
        "Nothing needs to be done.",
        ("dir.future", "dir.delete"),
    ),
    BrokerMessage(
        "broker.loading-thread",
        "error",
        (
            "There was an error in one of the threads during logs loading: {reason}",
            "There was an error in one of the threads during logs loading",
        ),
        "One partition could not be loaded, and this stopped the broker: {reason}.",
        "The text shows the reason, but may not name the file.",
        "Does not start. It loaded other partitions at the same time, and may have changed them.",
        "Name all log directories of the broker: kafkalog preflight shows which file stops it.",
        (),
        _LOG_DIR,
    ),
    BrokerMessage(
        "broker.metadata-fault",
        "error",
        ("Encountered metadata publishing fault: {reason}", "Encountered metadata loading fault: {reason}"),
        "The broker could not apply a change of the cluster's metadata: {reason}.",
        "The exception after this line shows the reason, often an error in a log directory.",
        "Continues.",
        "Read the exception in the next lines, repair the cause, and start the broker again.",
        ("dir.unclean",),
    ),
)
