import java.util.Properties;
import java.util.Random;

import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * What brokers before 0.10 understand, by the producer of 0.8.2: `LegacyWriter BOOTSTRAP SEED STEP...`.
 *
 * Steps: `plain=CODEC`, `compacted`, `deleted`.
 */
public class LegacyWriter {
    private static Random random;

    public static void main(String[] args) throws Exception {
        random = new Random(Long.parseLong(args[1]));
        for (int number = 2; number < args.length; number++) {
            String[] step = args[number].split("=", 2);
            Properties settings = new Properties();
            settings.put("bootstrap.servers", args[0]);
            settings.put("compression.type", step.length > 1 ? step[1] : "none");
            settings.put("linger.ms", "20");
            settings.put("batch.size", "700");
            settings.put("acks", "all");
            try (KafkaProducer<byte[], byte[]> producer =
                     new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer())) {
                send(producer, step[0], step[0].equals("plain") ? 40 : 160, step[0].equals("compacted") ? 12 : 0);
            }
            System.out.println("done " + step[0]);
        }
        System.out.println("all done");
    }

    private static void send(KafkaProducer<byte[], byte[]> producer, String topic, int count, int keys)
            throws Exception {
        for (int number = 0; number < count; number++) {
            byte[] key = keys == 0 ? (number % 5 == 0 ? null : bytes(6)) : ("key-" + random.nextInt(keys)).getBytes();
            byte[] value = number % 6 == 0 && keys > 0 ? null : bytes(random.nextInt(150));
            producer.send(new ProducerRecord<>(topic, 0, key, value));
            if (number % 8 == 7) {
                Thread.sleep(30); // so that batches end; this producer has no flush
            }
        }
    }

    private static byte[] bytes(int size) {
        byte[] made = new byte[size];
        random.nextBytes(made);
        return made;
    }
}
