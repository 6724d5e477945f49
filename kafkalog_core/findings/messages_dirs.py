"""Broker messages that look alarming and say nothing about a log directory: network, controller, configuration."""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["DIRECTORIES", "ELSEWHERE"]


def _elsewhere(name: str, happened: str, *wordings: str, why: str = "") -> BrokerMessage:
    return BrokerMessage(
        name=f"broker.{name}",
        severity="info",
        wordings=wordings,
        happened=happened,
        why=why or "It comes with starts, stops and elections.",
        broker_action="Nothing that touches a log directory.",
        cure="Nothing needs to be done on the disk.",
        commands=(),
        is_elsewhere=True,
    )


ELSEWHERE: Final = (
    _elsewhere(
        "elsewhere-controller",
        "The controller changes, or no broker led a partition for a moment.",
        "Performing controller activation",
        "NotControllerException",
        "The active controller appears to be node",
        "initiated state change for partition {partition} from OfflinePartition to OnlinePartition failed",
        "NoReplicaOnlineException",
        "Unexpected error handling request RequestHeader(",
        "STALE_BROKER_EPOCH",
        "StaleBrokerEpochException",
        "handleResponse: unexpected callback exception",
    ),
    _elsewhere(
        "elsewhere-shutdown",
        "Something was closed twice, or had already been closed, during a stop.",
        "Attempting to close NetworkClient that has already been closed",
        "Exception while execution the action",
        "ClosedChannelException",
    ),
    _elsewhere(
        "elsewhere-network",
        "A connection was lost or refused.",
        "Closing socket for {other} because of error",
        "Connection to node {number} ({other}) could not be established",
        "Error in response for fetch request",
        "for server {other}, unexpected error, closing socket connection and attempting reconnect",
        "Broken pipe",
        "Connection reset by peer",
        "Connection refused",
    ),
    _elsewhere(
        "elsewhere-configuration",
        "A setting is not known, not valid, or unwise.",
        "Property {other} is not valid",
        "It is smaller than message.timestamp.difference.max.ms's value",
        why="A remark about settings; it is written at each start.",
    ),
)


_IO: Final = "Takes the whole log directory offline; where it is the last one the broker halts. Before 1.0: halts."
_DISK: Final = ("dmesg | tail -50", "df -h {log_dir}", "df -i {log_dir}")
_OTHER_LINES: Final = "Look at the first error before this line: it names the cause."
_DIR: Final = ("kafkalog verify {dir}",)

DIRECTORIES: Final = (
    BrokerMessage(
        "broker.not-a-partition",
        "error",
        (
            "Found directory {path}, '{reason}' is not in the form of topic-partition",
            "Found directory {path}, {reason} is not in the form of topic-partition",
        ),
        "{path} is a directory in a log directory, and its name is not one of a partition.",
        "lost+found of a file system's root, .snapshot, a backup, or a folder that somebody made.",
        "Does not start. Files of such names do not matter, directories do.",
        "Move it out of the log directory. lost+found: make log.dirs a directory below the mount point.",
        ("dir.not-a-partition",),
        ("kafkalog verify {log_dir}",),
    ),
    BrokerMessage(
        "broker.duplicate-partition",
        "error",
        (
            "Duplicate log directories for {partition} are found in both {path} and {other} It is likely",
            "Duplicate log directories for {partition} are found in both {path} and {other}.",
            "Duplicate log directories found: {path}, {other}!",
        ),
        "{partition} is there twice: in {path} and in {other}.",
        "A move between log directories was interrupted, a directory was copied back, or two names mean the same "
        "number.",
        "Does not start.",
        "Find the complete one (later end offset, later leader epochs) and move the other one out of the log "
        "directory.",
        ("dir.duplicate-partition",),
        ("kafkalog dump --segments {path} {other}",),
    ),
    BrokerMessage(
        "broker.lock-held",
        "error",
        (
            "Failed to acquire lock on file .lock in {dir} A Kafka instance",
            "Failed to acquire lock on file .lock in {dir}. A Kafka instance",
        ),
        "Another process holds {dir}/.lock.",
        "A broker still runs there (perhaps one that is stopping), or another program that keeps to the lock.",
        "Does not start. Nothing is changed.",
        "Find the process and let it end. Do not delete .lock: two brokers on one directory destroy it.",
        (),
        ("fuser -v {dir}/.lock",),
    ),
    BrokerMessage(
        "broker.bad-file-name",
        "error",
        ('NumberFormatException: For input string: "{reason}"', "NumberFormatException: {reason}"),
        'A number was expected, and "{reason}" was found.',
        "At the start this is a file in a partition directory, such as backup.log, whose name does not start "
        "with an offset; or a line of leader-epoch-checkpoint or another checkpoint with a word in place of a "
        "number.",
        "Does not start, whichever partition it is in. It does not say which file: verify finds it.",
        "Move the file out of the partition directory, or correct the checkpoint's line.",
        ("segment.bad-name", "checkpoint.malformed-line", "snapshot.bad-name"),
    ),
    BrokerMessage(
        "broker.no-space",
        "error",
        ("No space left on device", "Disk quota exceeded"),
        "The disk is full.",
        "Records, or inodes, or a quota.",
        _IO,
        "Make room outside of the partitions first. Then shorten retention of large topics; never delete files of a "
        "partition by hand while the broker runs, and not its newest .log ever.",
        ("torn-tail",),
        ("df -h {log_dir}", "df -i {log_dir}", "kafkalog dump --segments {log_dir}"),
    ),
    BrokerMessage(
        "broker.disk-failing",
        "error",
        (
            "Input/output error",
            "Structure needs cleaning",
            "Read-only file system",
            "Stale file handle",
            "Transport endpoint is not connected",
            "a fault occurred in a recent unsafe memory access operation",
            "a fault occurred in an unsafe memory access operation",
        ),
        "The operating system could not read or write the disk.",
        "The disk, its controller, the network storage or the file system fails. A fault in a memory access is the "
        "same, seen through a mapped index.",
        _IO,
        "Stop the broker. Copy the disk (ddrescue) before anything else is tried; then repair the file system.",
        ("unreadable", "file.not-readable"),
        ("dmesg | tail -50", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.permission",
        "error",
        ("(Permission denied)", "AccessDeniedException: {path}", "Operation not permitted"),
        "The broker's user may not read or write {path}.",
        "A file that root made (by a tool or a restore), or the mount's options.",
        _IO,
        "Give the file the owner of the other files in the directory.",
        ("file.foreign-owner", "file.unreadable"),
        ("ls -ln {path}", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.map-failed",
        "error",
        ("Map failed", "Too many open files"),
        "The operating system gave the broker no more mapped or open files.",
        "Each segment needs two maps and several files: vm.max_map_count or the limit of open files is too low.",
        _IO + " The files are not damaged.",
        "Raise vm.max_map_count (262144 or more) and the limit of open files (100000 or more), then start.",
        ("dir.unclean",),
        ("sysctl vm.max_map_count", "kafkalog dump --segments {log_dir}"),
    ),
    BrokerMessage(
        "broker.dir-unusable",
        "error",
        (
            "Failed to create or validate data directory {path}",
            "Failed to load {path} during broker startup",
            "Disk error while locking directory {path}",
            "{path}: Not a directory",
        ),
        "{path} cannot be used as a log directory.",
        "Not mounted, not a directory, of another user, or a failing disk.",
        "Goes on without it: its partitions are offline. Without any other directory it halts.",
        "Look at the mount and the permissions, then start again.",
        ("dir.unreadable", "file.foreign-owner"),
        ("ls -ldn {path}", "kafkalog verify {path}"),
    ),
    BrokerMessage(
        "broker.all-dirs-failed",
        "error",
        (
            "Shutdown broker because all log dirs in {dir} have failed",
            "Shutdown broker because none of the specified log dirs from {dir} can be created or validated",
        ),
        "Every log directory has failed, so the broker halted: {dir}.",
        "One bad file is enough: any I/O error, or a malformed checkpoint, takes its whole directory offline.",
        "Halted without a clean shutdown. The files are as they were.",
        _OTHER_LINES,
        ("dir.unclean",),
        _DIR,
    ),
    BrokerMessage(
        "broker.dir-already-offline",
        "error",
        ("The log dir {dir} is already offline due to a previous IO exception",),
        "{dir} had failed before, and the next thing done in it stopped the broker's loading.",
        "An earlier error in the same directory: an unreadable checkpoint is enough.",
        "Does not start.",
        _OTHER_LINES,
        ("checkpoint",),
        _DIR,
    ),
    BrokerMessage(
        "broker.dir-offline",
        "error",
        (
            "Stopping serving replicas in dir {dir} with uuid",
            "Stopping serving replicas in dir {dir} because the log directory has failed",
            "Stopping serving replicas in dir {dir}",
            "Stopping serving logs in dir {dir}",
            "Stopping cleaning logs in dir {dir}",
            "Stopped serving replicas in dir {dir}",
            "because they are in the failed log directory {dir}",
            "are offline due to failure on log directory {dir}",
        ),
        "The log directory {dir} was taken out of service with all of its partitions.",
        "An I/O error or an unreadable checkpoint in it.",
        "Closes the partitions without flushing; the files are kept. Other log directories continue. It comes "
        "back only by a start.",
        _OTHER_LINES + " Mend that, then start the broker again.",
        ("checkpoint", "file.not-readable"),
        _DIR,
    ),
    BrokerMessage(
        "broker.dir-offline-told",
        "warning",
        (
            "Directories {dir} in broker {broker} marked offline",
            (
                "Unable to bring up new local leader {partition} with topic id {reason} because it resides in an "
                "offline log dir"
            ),
            "Skipping creation of log because there are potentially offline log directories",
            "Can not create log for {partition} because log directories {dir} are offline",
            "Unable to start fetching {partition} with topic ID {reason} due to NotLeaderOrFollowerException",
        ),
        "A partition remains out of service because a log directory of its broker is offline.",
        "It follows from the directory's failure.",
        "Waits for the directory. It makes no second copy elsewhere while the old one may come back.",
        _OTHER_LINES,
    ),
    BrokerMessage(
        "broker.storage-error",
        "error",
        (
            "Unable to start fetching {partition} with topic ID {other} due to a storage error {reason}",
            "Unable to start fetching {partition} with topic id {other} due to a storage error {reason}",
            "Error while renaming dir for {partition} in log dir {dir}",
            "Error while appending records to {partition} in dir {dir}",
            "Error while flushing log for {partition} in dir {dir} with",
            "Error while rolling log segment for {partition} in dir {dir}",
            "Error while deleting segments for {partition} in dir {dir}",
            "Error while deleting log for {partition} in dir {dir}",
            "Error while truncating log to offset {offset} for {partition} in dir {dir}",
            "Error while truncating the entire log for {partition} in dir {dir}",
            "Exception while reading from {partition} in dir {dir}",
            "Exception while deleting log for {partition} in dir {dir}",
            "Exception while deleting {path} in dir {dir}",
        ),
        "The disk could not do what was asked of it for {partition}.",
        "A failing or full disk, permissions, a name in the way, or a log directory that has failed before.",
        _IO,
        _OTHER_LINES,
        ("file.not-readable", "dir.future-beside-current"),
        ("dmesg | tail -50", "kafkalog verify {place}"),
    ),
    BrokerMessage(
        "broker.atomic-move-failed",
        "warning",
        ("Failed atomic move of {path} to {other} retrying with a non-atomic move",),
        "{path} could not be renamed to {other} at once.",
        "The file was deleted meanwhile (its partition is being deleted), or the target is a directory with "
        "files in it.",
        "Tries once more. If that fails too, an error follows.",
        "Nothing needs to be done, if no error follows.",
        ("dir.future-beside-current",),
    ),
    BrokerMessage(
        "broker.stray",
        "warning",
        (
            "Log in {path} marked stray and renamed to {other}",
            "Found stray log dir {other}(dir={path}, ",
            "The topicId does not exist in {other}(dir={path}, ",
            "Loaded stray log: {path}",
        ),
        "{path} does not belong to this broker by the cluster's metadata, and was renamed with the suffix -stray.",
        "The topic was deleted or moved while the broker was down; partition.metadata is missing; or the broker joined "
        "another cluster.",
        "Renames the directory to end in -stray and never reads it again. Releases before 3.7 rename it to end in "
        "-delete, and delete it after file.delete.delay.ms (1 minute).",
        "If the records are wanted, take them out with dump. If partition.metadata was only missing, put it back and "
        "take the suffix off the directory while the broker is stopped.",
        ("dir.stray", "dir.not-assigned", "partition-metadata"),
        ("kafkalog dump --segments {path}",),
    ),
    BrokerMessage(
        "broker.partition-missing",
        "error",
        ("Expected partition {partition} with topic id {reason} to exist, but it was missing. Creating",),
        "{partition} should be on this broker's disks and is not: a new, empty one is made.",
        "Its directory was removed or renamed, or is in a log directory that is offline.",
        "Makes an empty one. A follower fills it from the leader; alone it starts at offset 0 and the records are "
        "missed.",
        "Look for the directory (-stray, -delete, another disk) before producers write to the new one.",
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
        "This replica has more records than its leader, and the broker halted rather than truncate them.",
        "The leader lost its end: an unclean election, or a disk that was restored from a backup.",
        "Halts. Both logs are as they were.",
        "Compare the two replicas before either is truncated; kafkalog dump shows the records that only this one has.",
        (),
        ("kafkalog dump --segments {place}", "kafkalog dump --records --offsets {end}.. {place}"),
    ),
    BrokerMessage(
        "broker.future-replaced",
        "info",
        (
            "Attempting to recover abandoned future log for {partition} at",
            "Attempting to replace current log Log(dir={path}, ",
            "The current replica is successfully replaced with the future replica for {partition}",
        ),
        "A copy that was being moved between log directories takes the partition's place.",
        "The metadata names the new directory for the partition.",
        "Renames the copy to the plain name and the old one to -delete.",
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
        "One partition could not be loaded, and that stopped the broker: {reason}.",
        "The reason is in the text; it does not say which file it was.",
        "Does not start. Other partitions were loaded, and changed, at the same time.",
        "Verify all log directories: the finding of severity error whose broker action is that it does not start is "
        "the one.",
    ),
    BrokerMessage(
        "broker.startup-failed",
        "error",
        (
            "Encountered fatal fault: Error starting LogManager",
            "Encountered fatal fault: {reason}",
            "Fatal error during {reason} startup. Prepare to shutdown",
            "Fatal error during broker startup. Prepare to shutdown",
            "Exiting Kafka due to fatal exception",
            "Encountered metadata publishing fault: {reason}",
        ),
        "The broker gave up.",
        "The lines before and after this one name the cause.",
        "Stops. The shutdown was perhaps not clean: the next start recovers.",
        _OTHER_LINES,
        ("dir.unclean",),
    ),
)
