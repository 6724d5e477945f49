import java.io.BufferedReader;
import java.io.File;
import java.io.IOException;
import java.io.InputStreamReader;
import java.io.PrintWriter;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

import org.apache.kafka.common.errors.KafkaStorageException;
import org.apache.kafka.common.utils.Time;

/**
 * Kafka's own log, cleaner and retention without a broker: each line of the standard input is a command on one
 * partition's directory, each line of the standard output its answer. What needs the classes of one release is in
 * {@code LogHarness} and its like.
 *
 * <p>A line: the command, then {@code name=value} words, all with a tab between. Words of all commands: {@code dir},
 * {@code now} (what the clock shows), {@code start} (log start offset), {@code hw} (high watermark; without it the log
 * end), {@code set.NAME} (settings of the topic). An answer: {@code ok} and words, or {@code failed} and why.
 * <ul>
 *   <li>{@code open}: nothing but that. Answer: log end offset, the segments' base offsets.
 *   <li>{@code append sets=FILE}: each set of the file (its size in 4 bytes, then batches) as a follower appends what
 *       it fetched. Answer: the same.
 *   <li>{@code clean map=BYTES io=BYTES}: one round of the cleaner, if the log is dirty enough. Answer: {@code none},
 *       or first dirty offset, bound, new checkpoint, cleanable and total bytes, records read, written and without key.
 *   <li>{@code retain}: one round of retention. Answer: log start offset and the same.
 *   <li>{@code start}: nothing but opening it. Answer: log start offset, recovery point, and the same.
 *   <li>{@code checkpoint file=FILE}: what a recovery point checkpoint, or its like, says. Answer: its entries.
 *   <li>{@code read out=FILE}: every record from the log start offset on as a consumer reads it, into the file: offset,
 *       key and value, each in hexadecimal digits or {@code -}. Answer: how many batches did not open, which it
 *       steps over, and the same as {@code start}.
 * </ul>
 * Each command opens the log, after a clean stop unless the word {@code clean} is 0, with the recovery point {@code rp},
 * and closes it, so that its directory holds all that there is.
 */
abstract class LogCommands implements AutoCloseable {
    static final double LOAD_FACTOR = 0.9;
    static final int CHECK_INTERVAL_MS = 600_000;
    static final int READ_BYTES = 1 << 20;
    private static final ScheduledExecutorService IDLE =
        Executors.newSingleThreadScheduledExecutor(LogCommands::daemon);

    final FixedTime time;
    private final Map<String, String> words;
    private final List<Runnable> tasks = new ArrayList<>();

    LogCommands(Map<String, String> words) {
        this.words = words;
        time = new FixedTime(Long.parseLong(words.get("now")));
    }

    /** Opens the log of a command. */
    interface Opening {
        LogCommands open(Map<String, String> words) throws Exception;
    }

    /** Takes what a consumer reads. */
    static final class Reading {
        private final PrintWriter out;
        private int closed;

        Reading(PrintWriter out) {
            this.out = out;
        }

        void take(long offset, ByteBuffer key, ByteBuffer value) {
            out.println(offset + " " + hex(key) + " " + hex(value));
        }

        /** Reads a batch; one that does not open counts, and a consumer seeks past it. */
        void open(Runnable batch) {
            try {
                batch.run();
            } catch (RuntimeException | Error failure) { // snappy raises an Error where a block is too large
                closed++;
            }
        }
    }

    abstract void append(ByteBuffer set);

    abstract String clean(File logDir, int mapBytes, int bufferBytes) throws Exception;

    abstract String retain() throws IOException;

    /** The entries of a checkpoint of offsets: {@code topic partition offset}, with commas between. */
    abstract String checkpoint(File file) throws IOException;

    /** Hands records over from an offset on that are not of control batches; returns the next offset, or the same. */
    abstract long read(long offset, Reading reading) throws Exception;

    abstract String bounds();

    abstract String extent();

    abstract void closeLog() throws Exception;

    static void serve(Opening opening) throws IOException {
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        System.out.println("ready");
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            System.out.println(answer(opening, line.split("\t")));
        }
    }

    private static String answer(Opening opening, String[] line) {
        Map<String, String> words = new HashMap<>();
        for (int i = 1; i < line.length; i++) {
            String[] pair = line[i].split("=", 2);
            words.put(pair[0], pair[1]);
        }
        try (LogCommands log = opening.open(words)) {
            return "ok\t" + log.run(line[0]);
        } catch (Throwable failure) {  // snappy raises an Error where a block is too large
            failure.printStackTrace();
            return "failed\t" + outcome(failure) + " " + failure.toString().replaceAll("\\s+", " ");
        }
    }

    /** What LogManager.loadLogs makes of what a log throws: releases go on after the first, or after both. */
    private static String outcome(Throwable failure) {
        if (failure instanceof IOException) {
            return "io:";
        }
        boolean isStorage = failure instanceof KafkaStorageException && failure.getCause() instanceof IOException;
        return isStorage ? "storage:" : "other:";
    }

    private String run(String command) throws Exception {
        switch (command) {
            case "open":
                return extent();
            case "append":
                appendAll();
                return extent();
            case "clean":
                return clean(dir().getParentFile(), (int) number("map", 1 << 20), (int) number("io", 1 << 18));
            case "retain":
                return retain() + "\t" + extent();
            case "checkpoint":
                return "entries=" + checkpoint(new File(words.get("file")));
            case "read":
                return "closed=" + readAll() + "\t" + bounds() + "\t" + extent();
            case "start":
                return bounds() + "\t" + extent();
            default:
                throw new IllegalArgumentException(command);
        }
    }

    private int readAll() throws Exception {
        try (PrintWriter out = new PrintWriter(words.get("out"), StandardCharsets.US_ASCII)) {
            Reading reading = new Reading(out);
            long at = 0;
            for (long next = read(at, reading); next > at; next = read(at, reading)) {
                at = next;
            }
            return reading.closed;
        }
    }

    private static String hex(ByteBuffer bytes) {
        if (bytes == null) {
            return "-";
        }
        StringBuilder text = new StringBuilder("x");
        for (int i = bytes.position(); i < bytes.limit(); i++) {
            text.append(String.format("%02x", bytes.get(i)));
        }
        return text.toString();
    }

    private void appendAll() throws IOException {
        ByteBuffer sets = ByteBuffer.wrap(Files.readAllBytes(Path.of(words.get("sets"))));
        while (sets.hasRemaining()) {
            int size = sets.getInt();
            append(sets.slice(sets.position(), size));
            sets.position(sets.position() + size);
        }
    }

    @Override
    public void close() throws Exception {
        tasks.forEach(Runnable::run);
        closeLog();
    }

    /** Tasks to be done once (flushes, removal of files) wait for the end of the command; periodic ones never run. */
    ScheduledFuture<?> later(Runnable task, long periodMs) {
        if (periodMs <= 0) {
            tasks.add(task);
        }
        return IDLE.schedule(() -> { }, 0, TimeUnit.MILLISECONDS);
    }

    boolean isClean() {
        return number("clean", 1) != 0;
    }

    File dir() {
        return new File(words.get("dir"));
    }

    Properties settings() {
        Properties settings = new Properties();
        words.forEach((name, value) -> {
            if (name.startsWith("set.")) {
                settings.put(name.substring(4), value);
            }
        });
        return settings;
    }

    long number(String name, long otherwise) {
        return words.containsKey(name) ? Long.parseLong(words.get(name)) : otherwise;
    }

    private static Thread daemon(Runnable task) {
        Thread thread = new Thread(task);
        thread.setDaemon(true);
        return thread;
    }

    /** A clock that stands still. */
    static final class FixedTime implements Time {
        final long now;

        FixedTime(long now) {
            this.now = now;
        }

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
}
