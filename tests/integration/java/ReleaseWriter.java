import java.time.Duration;
import java.util.Collections;
import java.util.HashMap;
import java.util.Map;
import java.util.Properties;
import java.util.Random;

import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.AlterConfigOp;
import org.apache.kafka.clients.admin.ConfigEntry;
import org.apache.kafka.clients.admin.FeatureUpdate;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.admin.RecordsToDelete;
import org.apache.kafka.clients.admin.UpdateFeaturesOptions;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Writes what the release matrix looks at: `ReleaseWriter BOOTSTRAP SEED STEP...`, a step a word.
 *
 * Steps: `topic=NAME:key=value,...`; `plain=CODEC` (records of one codec); `idempotent`; `transactions` (ended both
 * ways, interleaved, some without data); `compacted`; `compacted-transactions`; `group` (offsets of a consumer);
 * `modern-group` (the same by the protocol of KIP-848); `group-transactions` (offsets in transactions);
 * `delete-records=TOPIC` (below offset 25); `alter=TOPIC:key=value`; `downgrade=FEATURE:LEVEL`; `abandon` (leaves
 * transactions open; must be the last one).
 */
public class ReleaseWriter {
    private static final int TOO_LARGE = 6000; // beyond max.message.bytes of the topics
    private static String bootstrap;
    private static Random random;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        random = new Random(Long.parseLong(args[1]));
        for (int number = 2; number < args.length; number++) {
            String[] step = args[number].split("=", 2);
            run(step[0], step.length > 1 ? step[1] : "");
            System.out.println("done " + step[0]);
        }
        System.out.println("all done");
        System.out.flush();
        Runtime.getRuntime().halt(0); // whoever still has a transaction open leaves it so
    }

    private static void run(String step, String word) throws Exception {
        switch (step) {
            case "topic": makeTopic(word); break;
            case "plain": plain(word); break;
            case "idempotent": idempotent(); break;
            case "transactions": transactions("txn"); break;
            case "compacted": compacted(); break;
            case "compacted-transactions": transactions("compacted"); break;
            case "group": group("readers", "classic"); break;
            case "modern-group": group("modern-readers", "consumer"); break;
            case "group-transactions": groupTransactions(); break;
            case "delete-records": deleteRecords(word); break;
            case "abandon": abandon(); break;
            case "alter": alter(word); break;
            case "downgrade": downgrade(word); break;
            default: throw new IllegalArgumentException(step);
        }
    }

    private static void makeTopic(String word) throws Exception {
        String[] parts = word.split(":", 2);
        Map<String, String> configs = new HashMap<>();
        for (String each : parts[1].split(",")) {
            String[] pair = each.split("=", 2);
            configs.put(pair[0], pair[1]);
        }
        try (Admin admin = admin()) {
            NewTopic topic = new NewTopic(parts[0], 1, (short) 1).configs(configs);
            admin.createTopics(Collections.singleton(topic)).all().get();
        }
    }

    private static void alter(String word) throws Exception {
        String[] parts = word.split(":", 2);
        String[] pair = parts[1].split("=", 2);
        AlterConfigOp change = new AlterConfigOp(new ConfigEntry(pair[0], pair[1]), AlterConfigOp.OpType.SET);
        ConfigResource topic = new ConfigResource(ConfigResource.Type.TOPIC, parts[0]);
        try (Admin admin = admin()) {
            admin.incrementalAlterConfigs(Collections.singletonMap(topic, Collections.singleton(change))).all().get();
        }
    }

    private static void downgrade(String word) throws Exception {
        String[] parts = word.split(":", 2);
        short level = Short.parseShort(parts[1]);
        FeatureUpdate update = new FeatureUpdate(level, FeatureUpdate.UpgradeType.SAFE_DOWNGRADE);
        try (Admin admin = admin()) {
            Map<String, FeatureUpdate> updates = Collections.singletonMap(parts[0], update);
            admin.updateFeatures(updates, new UpdateFeaturesOptions()).all().get();
        }
    }

    private static Admin admin() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        return Admin.create(settings);
    }

    private static void deleteRecords(String topic) throws Exception {
        try (Admin admin = admin()) {
            Map<TopicPartition, RecordsToDelete> before = new HashMap<>();
            before.put(new TopicPartition(topic, 0), RecordsToDelete.beforeOffset(25));
            admin.deleteRecords(before).all().get();
        }
    }

    private static KafkaProducer<byte[], byte[]> producer(String... words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("enable.idempotence", "false");
        settings.put("linger.ms", "20");
        settings.put("batch.size", "700");
        settings.put("acks", "all");
        for (int number = 0; number < words.length; number += 2) {
            settings.put(words[number], words[number + 1]);
        }
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static byte[] bytes(int size) {
        byte[] made = new byte[size];
        random.nextBytes(made);
        return made;
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, int count, int keys) {
        for (int number = 0; number < count; number++) {
            byte[] key = keys == 0 ? (number % 5 == 0 ? null : bytes(6)) : ("key-" + random.nextInt(keys)).getBytes();
            byte[] value = number % 6 == 0 && keys > 0 ? null : bytes(random.nextInt(150));
            producer.send(new ProducerRecord<>(topic, 0, key, value));
        }
        producer.flush();
    }

    private static void plain(String codec) {
        try (KafkaProducer<byte[], byte[]> producer = producer("compression.type", codec)) {
            send(producer, "plain", 40, 0);
        }
    }

    private static void idempotent() {
        for (int round = 0; round < 3; round++) {
            try (KafkaProducer<byte[], byte[]> producer = producer("enable.idempotence", "true")) {
                send(producer, "idempotent", 40, 0);
                send(producer, "deleted", 60, 0);
            }
        }
    }

    private static KafkaProducer<byte[], byte[]> transactional(String id) {
        KafkaProducer<byte[], byte[]> made =
            producer("enable.idempotence", "true", "transactional.id", id, "transaction.timeout.ms", "600000");
        made.initTransactions();
        return made;
    }

    private static void transactions(String topic) throws Exception {
        int keys = topic.equals("txn") ? 0 : 10;
        try (KafkaProducer<byte[], byte[]> first = transactional(topic + "-1");
             KafkaProducer<byte[], byte[]> second = transactional(topic + "-2")) {
            for (int round = 0; round < 6; round++) {
                first.beginTransaction();
                send(first, topic, 12, keys);
                second.beginTransaction();
                send(second, topic, 8, keys);
                send(first, topic, 4, keys);
                if (round % 2 == 0) {
                    first.abortTransaction();
                } else {
                    first.commitTransaction();
                }
                withoutData(topic, round);
                if (round % 3 == 0) {
                    second.commitTransaction();
                } else {
                    second.abortTransaction();
                }
            }
        }
        withoutData(topic, 7);
    }

    /** A transaction of a new producer, whose one record is refused: its marker is all that the partition gets. */
    private static void withoutData(String topic, int round) throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = transactional(topic + "-empty-" + round % 2)) {
            producer.beginTransaction();
            try {
                producer.send(new ProducerRecord<>(topic, 0, "key-0".getBytes(), bytes(TOO_LARGE))).get();
                throw new IllegalStateException("a record was taken that is too large");
            } catch (java.util.concurrent.ExecutionException expected) {
                producer.abortTransaction();
            }
        }
    }

    private static void compacted() {
        try (KafkaProducer<byte[], byte[]> producer = producer("enable.idempotence", "false")) {
            for (int round = 0; round < 4; round++) {
                send(producer, "compacted", 40, 12);
            }
        }
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String group, String protocol) {
        Properties settings = new Properties();
        settings.put("group.protocol", protocol); // unknown to clients before 3.7, which warn
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("isolation.level", "read_uncommitted");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static void group(String name, String protocol) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(name, protocol)) {
            consumer.subscribe(Collections.singleton("plain"));
            int seen = 0;
            long deadline = System.currentTimeMillis() + 20_000;
            while (seen < 30 && System.currentTimeMillis() < deadline) {
                ConsumerRecords<byte[], byte[]> polled = consumer.poll(Duration.ofMillis(200));
                seen += polled.count();
                consumer.commitSync();
            }
        }
    }

    private static void groupTransactions() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = transactional("streams");
             KafkaConsumer<byte[], byte[]> consumer = consumer("streams", "classic")) {
            for (int round = 0; round < 4; round++) {
                producer.beginTransaction();
                send(producer, "txn", 3, 0);
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                offsets.put(new TopicPartition("plain", 0), new OffsetAndMetadata(round * 5L));
                producer.sendOffsetsToTransaction(offsets, consumer.groupMetadata());
                if (round % 2 == 0) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
        }
    }

    private static void abandon() throws Exception {
        KafkaProducer<byte[], byte[]> producer = transactional("abandoned");
        producer.beginTransaction();
        send(producer, "txn", 10, 0);
        KafkaProducer<byte[], byte[]> plain = producer("enable.idempotence", "true");
        send(plain, "txn", 6, 0);
        send(plain, "idempotent", 6, 0);
    }
}
