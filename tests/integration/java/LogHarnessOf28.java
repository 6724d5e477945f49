import java.io.File;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.StreamSupport;

import kafka.log.Cleaner;
import kafka.log.CleanerStats;
import kafka.log.Log;
import kafka.log.LogCleanerManager;
import kafka.log.LogConfig;
import kafka.log.LogSegment;
import kafka.log.LogToClean;
import kafka.log.PreCleanStats;
import kafka.log.SkimpyOffsetMap;
import kafka.server.BrokerTopicStats;
import kafka.server.FetchLogEnd$;
import kafka.server.LogDirFailureChannel;
import kafka.server.checkpoints.OffsetCheckpointFile;
import kafka.utils.Pool;
import kafka.utils.Scheduler;
import kafka.utils.Throttler;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.RecordBatch;
import org.apache.kafka.common.utils.Time;
import scala.Function0;
import scala.Option;
import scala.Tuple2;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.BoxedUnit;

/** The commands of {@link LogCommands} on the classes of Kafka 2.7 and 2.8. */
public final class LogHarnessOf28 extends LogCommands {
    private static final int PRODUCER_EXPIRATION_MS = 604_800_000;
    private static final BrokerTopicStats STATS = new BrokerTopicStats();

    private final LogDirFailureChannel failures = new LogDirFailureChannel(1);
    private final Log log;

    private LogHarnessOf28(Map<String, String> words) throws IOException {
        super(words);
        LogConfig config = new LogConfig(settings(), scala.collection.immutable.Set$.MODULE$.empty());
        log = open(dir(), config, number("start", 0), number("rp", 0), new Tasks(), STATS, time,
            PRODUCER_EXPIRATION_MS, CHECK_INTERVAL_MS, failures, isClean(), true);
        log.updateHighWatermark(number("hw", log.logEndOffset()));
        log.producerStateManager().removeExpiredProducers(time.now);
    }

    /** Opens a log; before 2.8 it looks for the mark of a clean stop itself, and keeps partition.metadata anyway. */
    private static Log open(Object... arguments) throws IOException {
        Method apply = Arrays.stream(Log.class.getMethods()).filter(each -> each.getName().equals("apply"))
            .findFirst().orElseThrow();
        int count = apply.getParameterCount();
        if (count < arguments.length) {
            Path mark = ((File) arguments[0]).toPath().resolveSibling(".kafka_cleanshutdown");
            if ((Boolean) arguments[count]) {
                Files.write(mark, new byte[0]);
            } else {
                Files.deleteIfExists(mark);
            }
        }
        try {
            return (Log) apply.invoke(null, Arrays.copyOf(arguments, count));
        } catch (InvocationTargetException thrown) {
            throw sneaky(thrown.getCause());
        } catch (IllegalAccessException thrown) {
            throw new IllegalStateException(thrown);
        }
    }

    @SuppressWarnings("unchecked")
    private static <T extends Throwable> RuntimeException sneaky(Throwable thrown) throws T {
        throw (T) thrown;
    }

    public static void main(String[] arguments) throws IOException {
        serve(LogHarnessOf28::new);
    }

    @Override
    void append(ByteBuffer set) {
        log.appendAsFollower(MemoryRecords.readableRecords(set));
    }

    @Override
    String clean(File logDir, int mapBytes, int bufferBytes) {
        Pool<TopicPartition, Log> logs = new Pool<>(Option.empty());
        logs.put(log.topicPartition(), log);
        LogCleanerManager manager =
            new LogCleanerManager(CollectionConverters.asScala(List.of(logDir)).toSeq(), logs, failures);
        Option<LogToClean> dirty = manager.grabFilthiestCompactedLog(time, new PreCleanStats());
        if (dirty.isEmpty()) {
            return "none";
        }
        LogToClean found = dirty.get();
        Throttler unthrottled = new Throttler(Double.MAX_VALUE, 300, true, "io", "bytes", Time.SYSTEM);
        Cleaner cleaner = new Cleaner(0, new SkimpyOffsetMap(mapBytes, "MD5"), bufferBytes,
            log.config().maxMessageSize(), LOAD_FACTOR, unthrottled, time, partition -> BoxedUnit.UNIT);
        Tuple2<Object, CleanerStats> done = cleaner.clean(found);
        manager.doneCleaning(log.topicPartition(), logDir, (Long) done._1());
        CleanerStats stats = done._2();
        return String.join("\t", "dirty=" + found.firstDirtyOffset(), "bound=" + found.firstUncleanableOffset(),
            "end=" + done._1(), "cleanable=" + found.cleanableBytes(), "total=" + found.totalBytes(),
            "read=" + stats.messagesRead(), "written=" + stats.messagesWritten(),
            "keyless=" + stats.invalidMessagesRead());
    }

    @Override
    String retain() {
        log.deleteOldSegments();
        return "start=" + log.logStartOffset();
    }

    @Override
    String checkpoint(File file) {
        return CollectionConverters.asJava(new OffsetCheckpointFile(file, failures).read()).entrySet().stream()
            .map(each -> each.getKey().topic() + " " + each.getKey().partition() + " " + each.getValue())
            .collect(Collectors.joining(","));
    }

    @Override
    long read(long offset, Reading reading) {
        long next = Math.max(offset, log.logStartOffset());
        if (next >= log.logEndOffset()) {
            return next;
        }
        for (RecordBatch batch : log.read(next, READ_BYTES, FetchLogEnd$.MODULE$, true).records().batches()) {
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
        Iterable<LogSegment> segments = CollectionConverters.asJava(log.logSegments());
        return "end=" + log.logEndOffset() + "\tbases=" + StreamSupport.stream(segments.spliterator(), false)
            .map(segment -> String.valueOf(segment.baseOffset())).collect(Collectors.joining(","));
    }

    @Override
    void closeLog() {
        log.close();
        log.removeLogMetrics();
    }

    private final class Tasks implements Scheduler {
        @Override
        public ScheduledFuture<?> schedule(
                String name, Function0<BoxedUnit> task, long delay, long period, TimeUnit unit) {
            return later(task::apply, period);
        }

        @Override
        public void startup() { }

        @Override
        public void shutdown() { }

        @Override
        public boolean isStarted() {
            return true;
        }
    }
}
