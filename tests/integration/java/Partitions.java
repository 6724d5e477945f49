import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.utils.Utils;
import org.apache.kafka.server.log.remote.metadata.storage.RemoteLogMetadataTopicPartitioner;
import org.apache.kafka.server.share.SharePartitionKey;

/** Prints a line for each line of standard input: what Kafka's own classes hash it to. */
public class Partitions {
    public static void main(String[] arguments) throws Exception {
        Uuid id = Uuid.fromString(arguments[0]);
        RemoteLogMetadataTopicPartitioner remote = new RemoteLogMetadataTopicPartitioner(50);
        String text = new String(System.in.readAllBytes(), StandardCharsets.UTF_8);
        int number = 0;
        for (String line : text.split("\n")) {
            String share = SharePartitionKey.getInstance(line, new TopicIdPartition(id, number, line)).asCoordinatorKey();
            System.out.println(line.hashCode()
                + " " + Utils.abs(line.hashCode()) % 50
                + " " + Utils.murmur2(line.getBytes(StandardCharsets.UTF_8))
                + " " + Utils.abs(share.hashCode()) % 50
                + " " + remote.metadataPartition(new TopicIdPartition(id, number, line)));
            number++;
        }
    }
}
