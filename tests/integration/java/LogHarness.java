import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;
import java.util.stream.Collectors;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.server.util.Scheduler;
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

/**
 * Kafka's own log, cleaner and retention without a broker: each line of the standard input is a command on one
 * partition's directory, each line of the standard output its answer.
 *
 * <p>A line: the command, then {@code name=value} words, all with a tab between. Words of all commands: {@code dir},
 * {@code now} (what the clock shows), {@code start} (log start offset), {@code hw} (high watermark; without it the log
 * end), {@code set.NAME} (settings of the topic). An answer: {@code ok} and words, or {@code failed} and why.
 * <ul>
 *   <li>{@code open}: nothing but that. Answer: log end offset, the segments' base offsets.
 *   <li>{@code append sets=FILE}: each set of the file (its size in 4 bytes, then batches) as a follower appends what
 *       it fetched. Answer: the same.
 *   <li>{@code clean map=BYTES io=BYTES}: one round of the cleaner, if the log is dirty enough. Answer: {@code none}, or
 *       first dirty offset, bound, new checkpoint, cleanable and total bytes, records read, written and without key.
 *   <li>{@code retain}: one round of retention. Answer: log start offset and the same.
 * </ul>
 * A log is opened after a clean stop and closed by each command, so that its directory holds all that there is.
 */
public final class LogHarness implements AutoCloseable {
    private static final int PRODUCER_EXPIRATION_MS = 86_400_000;
    private static final double LOAD_FACTOR = 0.9;
    private static final ScheduledExecutorService IDLE = Executors.newSingleThreadScheduledExecutor(LogHarness::daemon);
    private static final BrokerTopicStats STATS = new BrokerTopicStats();

    private final Map<String, String> words;
    private final FixedTime time;
    private final Tasks tasks = new Tasks();
    private final LogDirFailureChannel failures = new LogDirFailureChannel(1);
    private final UnifiedLog log;

    private LogHarness(Map<String, String> words) throws IOException {
        this.words = words;
        time = new FixedTime(Long.parseLong(words.get("now")));
        Properties settings = new Properties();
        words.forEach((name, value) -> {
            if (name.startsWith("set.")) {
                settings.put(name.substring(4), value);
            }
        });
        log = UnifiedLog.create(
            new File(words.get("dir")), new LogConfig(settings), number("start", 0), 0L, tasks, STATS, time, 900_000,
            new ProducerStateManagerConfig(PRODUCER_EXPIRATION_MS, false), 600_000, failures, true, Optional.empty());
        log.updateHighWatermark(number("hw", log.logEndOffset()));
        log.removeExpiredProducers(time.now);
    }

    public static void main(String[] arguments) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(line.split("\t")));
        }
    }

    private static String answer(String[] line) {
        Map<String, String> words = new HashMap<>();
        for (int i = 1; i < line.length; i++) {
            String[] pair = line[i].split("=", 2);
            words.put(pair[0], pair[1]);
        }
        try (LogHarness harness = new LogHarness(words)) {
            return "ok\t" + harness.run(line[0]);
        } catch (Exception failure) {
            failure.printStackTrace();
            return "failed\t" + failure.toString().replaceAll("\\s+", " ");
        }
    }

    private String run(String command) throws Exception {
        return switch (command) {
            case "append" -> append();
            case "clean" -> clean();
            case "retain" -> retain();
            case "open" -> bases();
            default -> throw new IllegalArgumentException(command);
        };
    }

    private String append() throws IOException {
        ByteBuffer sets = ByteBuffer.wrap(Files.readAllBytes(Path.of(words.get("sets"))));
        while (sets.hasRemaining()) {
            int size = sets.getInt();
            log.appendAsFollower(MemoryRecords.readableRecords(sets.slice(sets.position(), size)), Integer.MAX_VALUE);
            sets.position(sets.position() + size);
        }
        return bases();
    }

    private String clean() throws Exception {
        File logDir = log.parentDirFile();
        ConcurrentHashMap<TopicPartition, UnifiedLog> logs = new ConcurrentHashMap<>(Map.of(log.topicPartition(), log));
        LogCleanerManager manager = new LogCleanerManager(List.of(logDir), logs, failures);
        try {
            Optional<LogToClean> dirty = manager.grabFilthiestCompactedLog(time, new PreCleanStats());
            if (dirty.isEmpty()) {
                return "none";
            }
            LogToClean log = dirty.get();
            Throttler unthrottled = new Throttler(Double.MAX_VALUE, 300, "io", "bytes", Time.SYSTEM);
            SkimpyOffsetMap map = new SkimpyOffsetMap((int) number("map", 1 << 20));
            int bufferSize = (int) number("io", 1 << 18);
            Cleaner cleaner = new Cleaner(0, map, bufferSize, log.log().config().maxMessageSize(), LOAD_FACTOR,
                unthrottled, time, partition -> { });
            Map.Entry<Long, CleanerStats> done = cleaner.clean(log);
            manager.doneCleaning(log.topicPartition(), logDir, done.getKey());
            CleanerStats stats = done.getValue();
            return String.join("\t", "dirty=" + log.firstDirtyOffset(), "bound=" + log.firstUncleanableOffset(),
                "end=" + done.getKey(), "cleanable=" + log.cleanableBytes(), "total=" + log.totalBytes(),
                "read=" + stats.messagesRead(), "written=" + stats.messagesWritten(),
                "keyless=" + stats.invalidMessagesRead());
        } finally {
            manager.removeMetrics();
        }
    }

    private String retain() throws IOException {
        log.deleteOldSegments();
        return "start=" + log.logStartOffset() + "\t" + bases();
    }

    private String bases() {
        return "end=" + log.logEndOffset() + "\tbases=" + log.logSegments().stream().map(segment -> String.valueOf(segment.baseOffset()))
            .collect(Collectors.joining(","));
    }

    private long number(String name, long otherwise) {
        return words.containsKey(name) ? Long.parseLong(words.get(name)) : otherwise;
    }

    @Override
    public void close() {
        tasks.runAll();
        log.close();
        log.removeLogMetrics();
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }

    /** A clock that stands still. */
    private record FixedTime(long now) implements Time {
        @Override
        public long milliseconds() {
            return now;
        }

        @Override
        public long nanoseconds() {
            return now * 1_000_000;
        }

        @Override
        public void sleep(long ms) {
            throw new UnsupportedOperationException();
        }

        @Override
        public void waitObject(Object object, Supplier<Boolean> condition, long deadlineMs) {
            throw new UnsupportedOperationException();
        }
    }

    /** Tasks to be done once (flushes, removal of files) wait for the end of the command; periodic ones never run. */
    private static final class Tasks implements Scheduler {
        private final List<Runnable> once = new ArrayList<>();

        @Override
        public ScheduledFuture<?> schedule(String name, Runnable task, long delayMs, long periodMs) {
            if (periodMs <= 0) {
                once.add(task);
            }
            return IDLE.schedule(() -> { }, 0, TimeUnit.MILLISECONDS);
        }

        private void runAll() {
            once.forEach(Runnable::run);
            once.clear();
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public void resizeThreadPool(int size) { }
    }
}
