import java.io.File;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledFuture;
import java.util.stream.Collectors;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.storage.log.FetchIsolation;
import org.apache.kafka.server.util.Scheduler;
import org.apache.kafka.storage.internals.checkpoint.OffsetCheckpointFile;
import org.apache.kafka.storage.internals.log.Cleaner;
import org.apache.kafka.storage.internals.log.CleanerStats;
import org.apache.kafka.storage.internals.log.LogCleanerManager;
import org.apache.kafka.storage.internals.log.LogConfig;
import org.apache.kafka.storage.internals.log.LogDirFailureChannel;
import org.apache.kafka.storage.internals.log.LogToClean;
import org.apache.kafka.storage.internals.log.PreCleanStats;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;
import org.apache.kafka.storage.internals.log.SkimpyOffsetMap;
import org.apache.kafka.storage.internals.log.UnifiedLog;
import org.apache.kafka.storage.internals.utils.Throttler;
import org.apache.kafka.storage.log.metrics.BrokerTopicStats;

/** The commands of {@link LogCommands} on the classes of Kafka 4.3 and 4.4. */
public final class LogHarness extends LogCommands {
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;
    private static final Optional<Method> PREPARE_CLOSE = Arrays.stream(UnifiedLog.class.getMethods())
        .filter(each -> each.getName().equals("prepareActiveSegmentForClose")).findFirst();
    private static final BrokerTopicStats STATS = new BrokerTopicStats();

    private final LogDirFailureChannel failures = new LogDirFailureChannel(1);
    private final UnifiedLog log;

    private LogHarness(Map<String, String> words) throws IOException {
        super(words);
        log = UnifiedLog.create(
            dir(), new LogConfig(settings()), number("start", 0), number("rp", 0), new Tasks(), STATS, time,
            TRANSACTION_TIMEOUT_MS,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), CHECK_INTERVAL_MS, failures,
            isClean(), Optional.empty());
        log.updateHighWatermark(number("hw", log.logEndOffset()));
        log.removeExpiredProducers(time.now);
    }

    public static void main(String[] arguments) throws IOException {
        serve(LogHarness::new);
    }

    @Override
    void append(ByteBuffer set) {
        log.appendAsFollower(MemoryRecords.readableRecords(set), Integer.MAX_VALUE);
    }

    @Override
    String clean(File logDir, int mapBytes, int bufferBytes) throws Exception {
        ConcurrentHashMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>(Map.of(log.topicPartition(), log));
        LogCleanerManager manager = new LogCleanerManager(List.of(logDir), logs, failures);
        try {
            Optional<LogToClean> dirty = manager.grabFilthiestCompactedLog(time, new PreCleanStats());
            if (dirty.isEmpty()) {
                return "none";
            }
            LogToClean found = dirty.get();
            Throttler unthrottled = new Throttler(Double.MAX_VALUE, 300, "io", "bytes", Time.SYSTEM);
            Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes), bufferBytes, log.config().maxMessageSize(),
                LOAD_FACTOR, unthrottled, time, partition -> { });
            Map.Entry<Long, CleanerStats> done = cleaner.clean(found);
            manager.doneCleaning(log.topicPartition(), logDir, done.getKey());
            CleanerStats stats = done.getValue();
            return String.join("\t", "dirty=" + found.firstDirtyOffset(), "bound=" + found.firstUncleanableOffset(),
                "end=" + done.getKey(), "cleanable=" + found.cleanableBytes(), "total=" + found.totalBytes(),
                "read=" + stats.messagesRead(), "written=" + stats.messagesWritten(),
                "keyless=" + stats.invalidMessagesRead());
        } finally {
            manager.removeMetrics();
        }
    }

    @Override
    String retain() throws IOException {
        log.deleteOldSegments();
        return "start=" + log.logStartOffset();
    }

    @Override
    String checkpoint(File file) throws IOException {
        return new OffsetCheckpointFile(file, failures).read().entrySet().stream()
            .map(each -> each.getKey().topic() + " " + each.getKey().partition() + " " + each.getValue())
            .collect(Collectors.joining(","));
    }

    @Override
    long read(long offset, Reading reading) throws IOException {
        long next = Math.max(offset, log.logStartOffset());
        if (next >= log.logEndOffset()) {
            return next;
        }
        for (RecordBatch batch : log.read(next, READ_BYTES, FetchIsolation.LOG_END, true).records.batches()) {
            long from = next;
            next = Math.max(next, batch.nextOffset());
            reading.open(() -> {
                batch.ensureValid();
                for (Record each : batch) {
                    if (each.offset() >= from && !batch.isControlBatch()) {
                        reading.take(each.offset(), each.key(), each.value());
                    }
                }
            });
        }
        return next;
    }

    @Override
    String bounds() {
        return "start=" + log.logStartOffset() + "\trp=" + log.recoveryPoint();
    }

    @Override
    String extent() {
        return "end=" + log.logEndOffset() + "\tbases=" + log.logSegments().stream()
            .map(segment -> String.valueOf(segment.baseOffset())).collect(Collectors.joining(","));
    }

    @Override
    void closeLog() throws ReflectiveOperationException {
        if (PREPARE_CLOSE.isPresent()) { // from 4.4 on LogManager.shutdown trims the active segment's indexes, not close
            PREPARE_CLOSE.get().invoke(log);
        }
        log.close();
        log.removeLogMetrics();
    }

    private final class Tasks implements Scheduler {
        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            return later(task, periodMs);
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public void resizeThreadPool(int size) { }
    }
}
