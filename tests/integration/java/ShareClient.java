import java.time.Duration;
import java.util.Collection;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * A member of a share group. Arguments: the broker, the group, the topic, what to do with records, how many at most, until
 * how many milliseconds without any, then settings of the group (group.NAME=VALUE) and of the consumer (NAME=VALUE).
 *
 * What to do is a letter for each offset modulo the length of the text: A accepts, X rejects, R releases at the first
 * delivery and accepts later, H holds the record and ends without closing. It prints a line for each record: partition,
 * offset, delivery count, letter.
 */
public class ShareClient {
    public static void main(String[] arguments) throws Exception {
        String group = arguments[1];
        Properties settings = new Properties();
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("group.id", group);
        settings.put("share.acknowledgement.mode", "explicit");
        settings.put("key.deserializer", StringDeserializer.class.getName());
        settings.put("value.deserializer", StringDeserializer.class.getName());
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", arguments[0]))) {
            for (int number = 6; number < arguments.length; number++) {
                String[] parts = arguments[number].split("=", 2);
                if (parts[0].startsWith("group.")) {
                    ConfigEntry entry = new ConfigEntry(parts[0].substring("group.".length()), parts[1]);
                    Collection<AlterConfigOp> changes = List.of(new AlterConfigOp(entry, AlterConfigOp.OpType.SET));
                    ConfigResource resource = new ConfigResource(ConfigResource.Type.GROUP, group);
                    admin.incrementalAlterConfigs(Map.of(resource, changes)).all().get();
                } else {
                    settings.put(parts[0], parts[1]);
                }
            }
        }
        String letters = arguments[3];
        int left = Integer.parseInt(arguments[4]);
        long idle = Long.parseLong(arguments[5]);
        KafkaShareConsumer<String, String> consumer = new KafkaShareConsumer<>(settings);
        consumer.subscribe(List.of(arguments[2]));
        long since = System.currentTimeMillis();
        boolean joined = false;
        while (left > 0 && System.currentTimeMillis() - since < (joined ? idle : idle + 10000)) {
            for (ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                joined = true;
                since = System.currentTimeMillis();
                char letter = letters.charAt((int) (record.offset() % letters.length()));
                int count = record.deliveryCount().get();
                if (left <= 0) {
                    consumer.acknowledge(record, AcknowledgeType.RELEASE);
                    continue;
                }
                left--;
                if (letter == 'R' && count > 1) {
                    letter = 'A';
                }
                System.out.println(record.partition() + " " + record.offset() + " " + count + " " + letter);
                if (letter == 'H') {
                    System.out.flush();
                    Runtime.getRuntime().halt(0);
                }
                consumer.acknowledge(record, letter == 'A' ? AcknowledgeType.ACCEPT
                    : letter == 'X' ? AcknowledgeType.REJECT : AcknowledgeType.RELEASE);
            }
            consumer.commitSync();
        }
        consumer.close();
    }
}
