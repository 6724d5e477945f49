import java.util.Arrays;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;

import kafka.api.FetchRequestBuilder;
import kafka.api.PartitionOffsetRequestInfo;
import kafka.common.OffsetAndMetadata;
import kafka.common.TopicAndPartition;
import kafka.javaapi.FetchResponse;
import kafka.javaapi.OffsetCommitRequest;
import kafka.javaapi.OffsetFetchRequest;
import kafka.javaapi.OffsetRequest;
import kafka.javaapi.consumer.SimpleConsumer;
import kafka.message.MessageAndOffset;

/**
 * What programs do with the simple consumer of Kafka 0.8.2: `SimpleConsumerUses HOST:PORT TOPIC TIME`; the topic has two
 * partitions. Multi-fetch, offsets before a time, and offsets of a group that the broker stores.
 */
public class SimpleConsumerUses {
    private static final String NAME = "simple";

    public static void main(String[] args) {
        String[] place = args[0].split(":");
        SimpleConsumer consumer = new SimpleConsumer(place[0], Integer.parseInt(place[1]), 20_000, 65_536, NAME);
        try {
            fetchBoth(consumer, args[1]);
            for (long time : new long[] {-1, -2, Long.parseLong(args[2])}) {
                System.out.println("before " + time + " " + Arrays.toString(before(consumer, args[1], time)));
            }
            commit(consumer, new TopicAndPartition(args[1], 0));
        } finally {
            consumer.close();
        }
        System.out.println("done");
    }

    /** Read both partitions, each from its start to its end, with requests that name both. */
    private static void fetchBoth(SimpleConsumer consumer, String topic) {
        long[] next = {0, 0};
        boolean isOver = false;
        while (!isOver) {
            FetchRequestBuilder request = new FetchRequestBuilder().clientId(NAME).maxWait(100).minBytes(1);
            for (int number = 0; number < 2; number++) {
                request.addFetch(topic, number, next[number], 4000);
            }
            FetchResponse response = consumer.fetch(request.build());
            isOver = true;
            for (int number = 0; number < 2; number++) {
                if (response.errorCode(topic, number) != 0) {
                    throw new IllegalStateException("error " + response.errorCode(topic, number));
                }
                for (MessageAndOffset each : response.messageSet(topic, number)) {
                    next[number] = Math.max(next[number], each.nextOffset());
                }
                isOver &= next[number] >= response.highWatermark(topic, number);
            }
        }
        System.out.println("fetched " + Arrays.toString(next));
    }

    private static long[] before(SimpleConsumer consumer, String topic, long time) {
        Map<TopicAndPartition, PartitionOffsetRequestInfo> wanted = new HashMap<>();
        wanted.put(new TopicAndPartition(topic, 0), new PartitionOffsetRequestInfo(time, 10));
        return consumer.getOffsetsBefore(new OffsetRequest(wanted, (short) 0, NAME)).offsets(topic, 0);
    }

    private static void commit(SimpleConsumer consumer, TopicAndPartition place) {
        OffsetAndMetadata offset = new OffsetAndMetadata(5, "note", -1);
        Map<TopicAndPartition, OffsetAndMetadata> offsets = Collections.singletonMap(place, offset);
        short version = 1; // version 0 is ZooKeeper's
        Object code = consumer.commitOffsets(new OffsetCommitRequest(NAME, offsets, 1, NAME, version)).errors().get(place);
        List<TopicAndPartition> places = Collections.singletonList(place);
        System.out.println("committed with " + code + ": "
            + consumer.fetchOffsets(new OffsetFetchRequest(NAME, places, version, 2, NAME)).offsets().get(place));
    }
}
