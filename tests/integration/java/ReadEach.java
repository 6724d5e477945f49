import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;

import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;

/**
 * What a consumer with default settings gets of partition 0 of each topic: `ReadEach HOST:PORT TOPIC...`. A line a topic,
 * with tabs: the topic, `OFFSET=VALUE` of each record, the position at the end, and the exception that stopped it, if
 * any. It gives up where a poll brings nothing several times, or where there are far more records than offsets.
 */
public class ReadEach {
    private static final int IDLE_POLLS = 6;
    private static final int MOST_RECORDS = 60;

    public static void main(String[] args) {
        for (int number = 1; number < args.length; number++) {
            System.out.println(args[number] + "\t" + read(args[0], args[number]));
        }
    }

    private static String read(String bootstrap, String topic) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("fetch.max.wait.ms", "100");
        TopicPartition partition = new TopicPartition(topic, 0);
        List<String> found = new ArrayList<>();
        String error = "";
        ByteArrayDeserializer plain = new ByteArrayDeserializer();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(settings, plain, plain)) {
            consumer.assign(Collections.singletonList(partition));
            consumer.seek(partition, 0);
            long end = consumer.endOffsets(Collections.singletonList(partition)).get(partition);
            int idle = 0;
            try {
                while (idle < IDLE_POLLS && consumer.position(partition) < end && found.size() < MOST_RECORDS) {
                    int before = found.size();
                    for (ConsumerRecord<byte[], byte[]> each : consumer.poll(Duration.ofMillis(400))) {
                        found.add(each.offset() + "=" + (each.value() == null ? "null" : new String(each.value())));
                    }
                    idle = found.size() == before ? idle + 1 : 0;
                }
            } catch (Throwable exception) {
                error = causes(exception);
            }
            return String.join(" ", found) + "\t" + consumer.position(partition) + "\t" + error;
        }
    }

    /** The exception at the bottom, which says what is wrong with the batch. */
    private static String causes(Throwable exception) {
        Throwable last = exception;
        while (last.getCause() != null) {
            last = last.getCause();
        }
        String text = last.getMessage() == null ? "" : ": " + last.getMessage().replaceAll("\\s+", " ");
        return last.getClass().getSimpleName() + text;
    }
}
