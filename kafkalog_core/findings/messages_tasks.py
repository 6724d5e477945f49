"""Broker messages of its own tasks and requests: flushes, deletions, the shutdown, records that cannot be decoded.

Each meaning is that of the method of 4.3.1 named above it.
"""

from __future__ import annotations

from typing import Final

from kafkalog_core.findings.kinds import BrokerMessage

__all__ = ["TASKS"]

_EXCEPTION: Final = "The exception in the lines after this one shows the reason."
_VERIFY: Final = ("kafkalog verify {log_dir}",)

TASKS: Final = (
    # KafkaScheduler.schedule
    BrokerMessage(
        "broker.task-failed",
        "error",
        ("Uncaught exception in scheduled task '{other}'",),
        "A task of the broker ended with an exception: {other}.",
        "flush-log and the tasks of the checkpoints write to the disk, and kafka-log-retention deletes segments. "
        f"{_EXCEPTION}",
        "Ends this run of the task. A periodic task runs again after its period.",
        "Look at the exception. If it is about a file, look at the disk.",
        (),
        _VERIFY,
    ),
    # Utils.flushFileIfExists, of a roll, whose flush of the snapshot comes later
    BrokerMessage(
        "broker.flushed-file-gone",
        "info",
        ("Failed to flush file {path}",),
        "The broker was to flush {path}, which was deleted meanwhile.",
        "A truncation, a deletion of segments or of the topic took the file away after the log was rolled.",
        "Goes on: a missing file needs no flush.",
        "Nothing needs to be done, if it is one of a few lines. If it repeats, look at what truncates the log.",
        (),
        ("kafkalog dump --segments {place}",),
    ),
    # LogCleanerManager.resumeCleaning, abortAndPauseCleaning
    BrokerMessage(
        "broker.cleaner-not-paused",
        "info",
        (
            "Compaction for partition {partition} cannot be resumed since it is not paused",
            "Compaction for partition {partition} cannot be resumed since it is in {reason} state",
            "Compaction for partition {partition} cannot be aborted and paused since it is in {reason} state",
        ),
        "The broker was to pause or to continue the compaction of {partition}, whose state does not allow this.",
        "Retention, a truncation or the stop of the broker acts on the partition at the same time as the cleaner.",
        "Ends the check of retention or the truncation that met it.",
        "Nothing needs to be done, if the line does not come at each check. Else start the broker again.",
        (),
        ("kafkalog compact {log_dir}",),
    ),
    # LogManager.deleteLogs takes a log from its queue before it deletes it
    BrokerMessage(
        "broker.delete-task-failed",
        "error",
        (
            "Exception in kafka-delete-logs thread",
            "Failed to schedule next delete in kafka-delete-logs thread",
        ),
        "The broker could not delete the directory of a deleted partition.",
        _EXCEPTION,
        "Leaves the directory as it is until its next start.",
        "Look at the exception. The space is free after the next start.",
        ("dir.delete",),
        ("kafkalog usage {log_dir}",),
    ),
    # LogManager.flushDirtyLogs
    BrokerMessage(
        "broker.flush-failed",
        "error",
        ("Error flushing topic {other}",),
        "The broker could not flush a log of topic {other}, which has flush.ms.",
        _EXCEPTION,
        "Tries again at its next check.",
        "Look at the disk (dmesg, df). If a line about a failed log directory follows, that one is the cause.",
        (),
        _VERIFY,
    ),
    # LogManager.shutdown
    BrokerMessage(
        "broker.close-failed",
        "warning",
        ("There was an error in one of the threads during LogManager shutdown: {reason}",),
        "The broker could not close a log at its stop: {reason}.",
        "A disk failed, or is full, or the log was deleted meanwhile.",
        "Writes no .kafka_cleanshutdown into that log directory: the next start recovers its logs.",
        "Look at what the next start truncates, before you start the broker.",
        ("dir.unclean",),
        ("kafkalog preflight {log_dir}",),
    ),
    # BrokerServer.shutdown
    BrokerMessage(
        "broker.shutdown-not-approved",
        "info",
        (
            "Timed out waiting for the controller to approve controlled shutdown",
            "Got unexpected exception waiting for controlled shutdown future",
        ),
        "The broker was to stop, and the controllers did not let it go in time.",
        "No controller leads, or other brokers could not take over its partitions.",
        "Stops all the same, and closes its logs as at any stop.",
        "Nothing needs to be done on the disk.",
        (),
        ("kafkalog cluster {log_dir}",),
    ),
    # ReplicaManager.applyLocalFollowersDelta, after the wordings of an offline directory
    BrokerMessage(
        "broker.follower-not-started",
        "error",
        (
            "Unable to start fetching {partition} with topic ID {other} due to {reason}",
            "Unable to start fetching {partition} with topic id {other} due to {reason}",
        ),
        "The broker could not open {partition}, which it was to follow: {reason}.",
        _EXCEPTION,
        "Counts the partition as failed, and fetches nothing of it.",
        "Look at the exception, repair its cause, and start the broker again.",
        (),
        ("kafkalog verify {place}",),
    ),
    # SocketServer.Acceptor.openServerSocket
    BrokerMessage(
        "broker.port-not-bound",
        "error",
        ("Socket server failed to bind to {other}:{number}: {reason}",),
        "The broker cannot listen at {other}:{number}: {reason}.",
        "Another process listens at that port, as a broker that still runs; or the address is not one of this machine.",
        "Does not start.",
        "Find the process at that port and let it end, or correct listeners in server.properties.",
        (),
        ("fuser -v {number}/tcp",),
    ),
    # FutureUtils.waitWithLogging of BrokerServer.startup and ControllerServer.startup, DataPlaneAcceptor
    BrokerMessage(
        "broker.listener-failed",
        "error",
        (
            "Received a fatal error while waiting for all of the SocketServer Acceptors to be started",
            "Unable to start acceptor for {other}",
            'Cannot invoke "java.nio.channels.ServerSocketChannel.close()"',  # 3.9
        ),
        "The broker could not open one of its listeners.",
        _EXCEPTION,
        "Does not start.",
        "Look at the exception: kafkalog explain reads it too.",
        (),
        ("kafkalog preflight {log_dir}",),
        names_no_cause=True,
    ),
    # BrokerLifecycleManager.RegistrationTimeoutEvent, FutureUtils.waitWithLogging
    BrokerMessage(
        "broker.not-registered",
        "error",
        (
            "Shutting down because we were unable to register with the controller quorum",
            "Received a fatal error while waiting for {reason}",
            "Timed out while waiting for {reason}",
        ),
        "The broker could not register with the controllers in time, or not follow their metadata log.",
        "No controller leads, they cannot be reached, or this machine was too busy. Where this node is a controller "
        "too, its own metadata log may be the cause.",
        "Ends its process.",
        "Look at the logs of the controllers. If this node is one of them, look at its metadata log.",
        ("meta.only-voter", "quorum-state"),
        ("kafkalog preflight {log_dir}", "kafkalog cluster {log_dir}"),
    ),
    # KafkaApis.handle, ControllerApis.handle, ReplicaManager.fetchOffset, KafkaRequestHandler.run
    BrokerMessage(
        "broker.request-failed",
        "warning",
        (
            "Unexpected error handling request RequestHeader({other}",
            "Error while responding to offset request",
            "Exception when handling request",
        ),
        "The broker could not answer a request.",
        "The controller has changed, a client asks for something wrong, or a batch on the disk cannot be decoded. "
        f"{_EXCEPTION}",
        "Answers with an error.",
        "Look at the exception: kafkalog explain reads it too.",
        (),
        _VERIFY,
    ),
    # DefaultRecord.readFrom, DefaultRecordBatch: what iterates over the records of a batch throws these
    BrokerMessage(
        "broker.records-undecodable",
        "error",
        (
            "Found invalid record structure",
            "Invalid record size: expected {number} bytes in record payload",
            "Incorrect declared batch size, premature EOF reached",
            "Incorrect declared batch size, records still remaining in file",
            "Found invalid record count {count} in magic v{version} batch",
            "Found invalid number of record headers",
            "Failed to decompress record stream",
        ),
        "A batch cannot be decoded: its records are not as its header says.",
        "Bytes of the batch have changed, or its producer wrote it wrong.",
        "Serves the batch as it is. What has to decode it fails: the cleaner, a search by time, a coordinator.",
        "Find the batch, and run kafkalog recover: it keeps every batch that can be read.",
        ("record", "crc-mismatch"),
        ("kafkalog verify {log_dir}", "kafkalog recover {log_dir}"),
    ),
    # Cleaner.growBuffers, and LogCleaner.cleanFilthiestLog for an exception of any cleaning
    BrokerMessage(
        "broker.cleaner-batch-too-large",
        "error",
        (
            "This log contains a message larger than maximum allowable size of {number}",
            "Failed to read from segment {reason} of partition {partition} while loading offset map",
        ),
        "The log cleaner could not read a batch.",
        "A size in the log is damaged, the file cannot be read, or max.message.bytes was lowered below a batch in it.",
        "Does not clean the partition again before its next start.",
        "Verify the partition. If no batch is damaged, raise max.message.bytes of the topic, and start the broker "
        "again.",
        ("bad-length", "crc-mismatch"),
        ("kafkalog compact {log_dir}", "kafkalog verify {log_dir}"),
    ),
    # Formatter.doFormat, of kafka-storage.sh
    BrokerMessage(
        "broker.dir-formatted",
        "info",
        ("Log directory {dir} is already formatted. Use --ignore-formatted",),
        "kafka-storage.sh format found a meta.properties in {dir}.",
        "The node has run before, or was formatted before.",
        "Takes no part: the tool has changed no directory.",
        "Nothing needs to be done for a node that has run. To add a directory to it: kafka-storage.sh format "
        "--ignore-formatted, which leaves those that have a meta.properties.",
        ("meta",),
        ("kafkalog dump --files {dir}/meta.properties",),
    ),
    # Exceptions of java.nio and java.io about a file that a path named
    BrokerMessage(
        "broker.file-gone",
        "warning",
        (
            "NoSuchFileException: {path} -> {other}",
            "NoSuchFileException: {path}",
            "FileNotFoundException: {path} (No such file or directory)",
        ),
        "{path} is not there.",
        "Somebody deleted it or its directory while the broker ran, as a service that cleans /tmp does. Or the broker "
        "itself deleted it at that moment: with its topic, by retention, or in a truncation.",
        "If it needs the file, takes the whole log directory offline: a line about that follows.",
        "If the log directory is offline, find what deleted the file, and a copy of it, before you start the broker.",
        (),
        ("kafkalog preflight {log_dir}",),
    ),
    # Kafka.main, KafkaServer.startup, BrokerServer.startup, SharedServer.start, ProcessTerminatingFaultHandler
    BrokerMessage(
        "broker.startup-failed",
        "error",
        (
            "Encountered fatal fault: Error starting LogManager",
            "Encountered fatal fault: {reason}",
            "Fatal error during {reason} startup. Prepare to shutdown",
            "Exiting Kafka due to fatal exception",
            "Exiting Kafka.",
            "Got exception while starting SharedServer",
        ),
        "The broker stopped with a fatal error.",
        "The lines before and after this one name the cause.",
        "Stops. The shutdown may not be clean: the next start then recovers.",
        "Read the first error before this line: it names the cause.",
        ("dir.unclean",),
        ("kafkalog preflight {log_dir}", "kafkalog recover {log_dir}"),
        names_no_cause=True,
    ),
)
