import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;

import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.utils.Time;
import org.apache.kafka.storage.internals.log.ProducerStateManager;
import org.apache.kafka.storage.internals.log.ProducerStateManagerConfig;

/**
 * Kafka's ProducerStateManager loads the snapshots of partition directories. The arguments are END_OFFSET, NOW_MS and the
 * directories; for each a line says how many producers are loaded, up to which offset, and how many snapshots are left.
 */
public final class SnapshotLoader {
    private static final int TRANSACTION_TIMEOUT_MS = 900_000;
    private static final int EXPIRATION_MS = 86_400_000;

    private SnapshotLoader() {
    }

    public static void main(String[] arguments) throws IOException {
        long end = Long.parseLong(arguments[0]);
        long now = Long.parseLong(arguments[1]);
        for (String directory : Arrays.asList(arguments).subList(2, arguments.length)) {
            var manager = new ProducerStateManager(
                new TopicPartition("t", 0), Path.of(directory).toFile(), TRANSACTION_TIMEOUT_MS,
                new ProducerStateManagerConfig(EXPIRATION_MS, false), Time.SYSTEM);
            manager.truncateAndReload(0, end, now);
            long left;
            try (var files = Files.list(Path.of(directory))) {
                left = files.filter(each -> each.toString().endsWith(".snapshot")).count();
            }
            System.out.println(manager.activeProducers().size() + " " + manager.mapEndOffset() + " " + left);
        }
    }
}
