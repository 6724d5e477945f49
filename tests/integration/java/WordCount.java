import java.util.Arrays;
import java.util.Properties;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Produced;

/** Counts the words of topic lines, exactly once, into topic counts. Arguments: the broker, a directory for its state, a group protocol. */
public class WordCount {
    public static void main(String[] arguments) throws Exception {
        Properties settings = new Properties();
        settings.put("application.id", "wordcount");
        settings.put("bootstrap.servers", arguments[0]);
        settings.put("state.dir", arguments[1]);
        settings.put("processing.guarantee", "exactly_once_v2");
        settings.put("commit.interval.ms", "200");
        settings.put("replication.factor", "1");
        settings.put("num.stream.threads", "2");
        if (arguments.length > 2) {
            settings.put("group.protocol", arguments[2]);
        }
        settings.put("session.timeout.ms", "6000");
        settings.put("heartbeat.interval.ms", "1000");
        settings.put("auto.offset.reset", "earliest");
        settings.put("default.key.serde", Serdes.StringSerde.class.getName());
        settings.put("default.value.serde", Serdes.StringSerde.class.getName());
        StreamsBuilder builder = new StreamsBuilder();
        builder.<String, String>stream("lines")
            .flatMapValues(line -> Arrays.asList(line.split(" ")))
            .groupBy((key, word) -> word)
            .count()
            .toStream()
            .to("counts", Produced.with(Serdes.String(), Serdes.Long()));
        KafkaStreams streams = new KafkaStreams(builder.build(), settings);
        streams.setUncaughtExceptionHandler(error -> StreamThreadExceptionResponse.REPLACE_THREAD);
        Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
        streams.start();
        Thread.sleep(Long.MAX_VALUE);
    }
}
