import java.lang.reflect.Method;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Collection;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.BooleanSupplier;

import org.apache.kafka.clients.consumer.ConsumerRebalanceListener;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What programs do with the clients of Kafka 0.9 and later: `ClientUses BOOTSTRAP TOPIC STEP`; the topic has two partitions.
 *
 * Steps: `group=ASSIGNOR COUNT` (two members share the topic, one closes, the other one reads all its records and
 * commits; no assignor: the client's default);
 * `transactions` (one committed with offsets of a group, one aborted); `idempotent`. Methods that a release lacks, or
 * that a later one removed, are found by reflection.
 */
public class ClientUses {
    private static final long PATIENCE_MS = 60_000;
    private static String bootstrap;
    private static String topic;

    public static void main(String[] args) throws Exception {
        bootstrap = args[0];
        topic = args[1];
        String[] step = args[2].split("=", 2);
        switch (step[0]) {
            case "group": group(step[1], Integer.parseInt(args[3])); break;
            case "transactions": transactions(); break;
            case "idempotent": idempotent(); break;
            default: throw new IllegalArgumentException(args[2]);
        }
        System.out.println("done");
    }

    private static KafkaConsumer<byte[], byte[]> consumer(String group, String... words) {
        Properties settings = settings(words);
        settings.put("group.id", group);
        settings.put("enable.auto.commit", "false");
        settings.put("auto.offset.reset", "earliest");
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "300");
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }

    private static KafkaProducer<byte[], byte[]> producer(String... words) {
        Properties settings = settings(words);
        settings.put("acks", "all");
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    private static Properties settings(String... words) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        for (int number = 0; number < words.length; number += 2) {
            settings.put(words[number], words[number + 1]);
        }
        return settings;
    }

    private static Iterable<ConsumerRecord<byte[], byte[]>> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        Method poll;
        Object limit;
        try { // since 2.0
            Class<?> duration = Class.forName("java.time.Duration");
            poll = KafkaConsumer.class.getMethod("poll", duration);
            limit = duration.getMethod("ofMillis", long.class).invoke(null, 200L);
        } catch (NoSuchMethodException error) {
            poll = KafkaConsumer.class.getMethod("poll", long.class);
            limit = 200L;
        }
        @SuppressWarnings("unchecked")
        Iterable<ConsumerRecord<byte[], byte[]>> found = (Iterable<ConsumerRecord<byte[], byte[]>>) poll.invoke(consumer, limit);
        return found;
    }

    private static class Member extends Thread {
        final KafkaConsumer<byte[], byte[]> consumer;
        final Set<String> seen = Collections.synchronizedSet(new TreeSet<>());
        volatile TreeSet<Integer> share = new TreeSet<>();
        volatile boolean isOver;
        volatile boolean commits;
        volatile Exception failure;

        Member(KafkaConsumer<byte[], byte[]> consumer) {
            this.consumer = consumer;
            consumer.subscribe(Arrays.asList(topic), new ConsumerRebalanceListener() {
                @Override
                public void onPartitionsRevoked(Collection<TopicPartition> revoked) { // nothing is committed: who gets them reads from the start
                    for (TopicPartition each : revoked) {
                        seen.removeIf(record -> record.startsWith(each.partition() + ":"));
                    }
                }

                @Override
                public void onPartitionsAssigned(Collection<TopicPartition> assigned) {
                }
            });
        }

        @Override
        public void run() {
            try {
                while (!isOver) {
                    Iterable<ConsumerRecord<byte[], byte[]>> found = poll(consumer);
                    TreeSet<Integer> now = new TreeSet<>();
                    for (TopicPartition each : consumer.assignment()) {
                        now.add(each.partition());
                    }
                    for (ConsumerRecord<byte[], byte[]> each : found) {
                        seen.add(each.partition() + ":" + each.offset());
                    }
                    share = now;
                }
                if (commits) {
                    consumer.commitSync();
                }
            } catch (Exception error) {
                failure = error;
            } finally {
                consumer.close();
            }
        }

        void end(boolean isLast) throws Exception {
            commits = isLast;
            isOver = true;
            join();
            if (failure != null) {
                throw failure;
            }
        }
    }

    private static void group(String assignor, int count) throws Exception {
        String[] words = assignor.isEmpty() ? new String[0] : new String[] {"partition.assignment.strategy", assignor};
        String name = topic + "-" + System.nanoTime();
        List<Member> members = new ArrayList<>();
        for (int number = 0; number < 2; number++) {
            members.add(new Member(consumer(name, words)));
            members.get(number).start();
        }
        Member first = members.get(0), second = members.get(1);
        await(members, () -> first.share.size() == 1 && second.share.size() == 1 && !first.share.equals(second.share));
        System.out.println("shares " + new TreeSet<>(Arrays.asList(first.share.first(), second.share.first())));
        first.end(false);
        await(Collections.singletonList(second), () -> second.share.size() == 2);
        System.out.println("alone " + second.share);
        await(Collections.singletonList(second), () -> second.seen.size() == count); // the first one has committed nothing
        int read = second.seen.size(); // its partitions are revoked at the end
        second.end(true);
        System.out.println("read " + read);
        System.out.println("committed " + position(name, 0) + " " + position(name, 1));
    }

    /** The offset that a group committed, else 0. */
    private static long position(String group, int number) {
        try (KafkaConsumer<byte[], byte[]> consumer = consumer(group)) {
            List<TopicPartition> place = Arrays.asList(new TopicPartition(topic, number));
            consumer.assign(place);
            return consumer.position(place.get(0));
        }
    }

    private static void await(List<Member> members, BooleanSupplier condition) throws Exception {
        long end = System.currentTimeMillis() + PATIENCE_MS;
        while (!condition.getAsBoolean()) {
            for (Member each : members) {
                if (each.failure != null) {
                    throw each.failure;
                }
            }
            if (System.currentTimeMillis() > end) {
                throw new IllegalStateException("not all shares or records came");
            }
            Thread.sleep(50);
        }
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String prefix) throws Exception {
        for (int number = 0; number < 10; number++) {
            producer.send(new ProducerRecord<>(topic, number % 2, "k".getBytes(), (prefix + number).getBytes())).get();
        }
    }

    private static void idempotent() throws Exception {
        try (KafkaProducer<byte[], byte[]> producer = producer("enable.idempotence", "true")) {
            send(producer, "once-");
        }
    }

    private static void transactions() throws Exception {
        Method begin = KafkaProducer.class.getMethod("beginTransaction");
        try (KafkaProducer<byte[], byte[]> producer = producer("transactional.id", topic + "-id")) {
            KafkaProducer.class.getMethod("initTransactions").invoke(producer);
            begin.invoke(producer);
            send(producer, "committed-");
            sendOffsets(producer, topic + "-in-transaction", 3);
            KafkaProducer.class.getMethod("commitTransaction").invoke(producer);
            begin.invoke(producer);
            send(producer, "aborted-");
            sendOffsets(producer, topic + "-in-transaction", 7);
            KafkaProducer.class.getMethod("abortTransaction").invoke(producer);
        }
        System.out.println("committed " + position(topic + "-in-transaction", 0));
    }

    private static void sendOffsets(KafkaProducer<byte[], byte[]> producer, String group, long offset) throws Exception {
        Map<TopicPartition, OffsetAndMetadata> offsets =
            Collections.singletonMap(new TopicPartition(topic, 0), new OffsetAndMetadata(offset));
        try { // until 3.x
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, String.class).invoke(producer, offsets, group);
        } catch (NoSuchMethodException error) {
            Class<?> kind = Class.forName("org.apache.kafka.clients.consumer.ConsumerGroupMetadata");
            Object metadata = kind.getConstructor(String.class).newInstance(group);
            KafkaProducer.class.getMethod("sendOffsetsToTransaction", Map.class, kind).invoke(producer, offsets, metadata);
        }
    }
}
