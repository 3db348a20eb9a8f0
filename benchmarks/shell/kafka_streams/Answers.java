import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.util.Properties;
import org.apache.kafka.clients.consumer.ConsumerConfig;
import org.apache.kafka.clients.producer.ProducerConfig;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.StreamsConfig;
import org.apache.kafka.streams.Topology;
import org.apache.kafka.streams.processor.api.Processor;
import org.apache.kafka.streams.processor.api.ProcessorContext;
import org.apache.kafka.streams.processor.api.Record;
import org.apache.kafka.streams.state.KeyValueStore;
import org.apache.kafka.streams.state.Stores;

/** Kafka Streams with a count a key in a store of RocksDB, and its changelog; arguments as of the peers in Python. */
public final class Answers implements Processor<byte[], byte[], byte[], byte[]> {
  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String COMPOSED = "x".repeat(520);
  private static final String DECISION = "x".repeat(2_840);

  private ProcessorContext<byte[], byte[]> context;
  private KeyValueStore<byte[], Long> counts;

  @Override
  public void init(ProcessorContext<byte[], byte[]> context) {
    this.context = context;
    this.counts = context.getStateStore("counts");
  }

  @Override
  public void process(Record<byte[], byte[]> record) {
    Long count = counts.get(record.key());
    counts.put(record.key(), count == null ? 1 : count + 1);
    try {
      JsonNode request = JSON.readTree(record.value());
      context.forward(record.withValue(answer(request, COMPOSED)), "composed");
      context.forward(record.withValue(answer(request, DECISION)), "decisions");
    } catch (java.io.IOException failed) {
      throw new UncheckedIOException(failed);
    }
  }

  private static byte[] answer(JsonNode request, String text) throws java.io.IOException {
    ObjectNode answer = JSON.createObjectNode();
    answer.set("request_id", request.get("request_id"));
    answer.set("session_id", request.get("session_id"));
    answer.put("text", text);
    return JSON.writeValueAsBytes(answer);
  }

  public static void main(String[] args) throws Exception {
    var bytes = Serdes.ByteArray();
    var topology = new Topology();
    topology.addSource("requests", bytes.deserializer(), bytes.deserializer(), args[2]);
    topology.addProcessor("answers", Answers::new, "requests");
    topology.addStateStore(
        Stores.keyValueStoreBuilder(Stores.persistentKeyValueStore("counts"), bytes, Serdes.Long())
            .withCachingDisabled(), // each change is written to the changelog, as by the other peers
        "answers");
    topology.addSink("composed", args[3], bytes.serializer(), bytes.serializer(), "answers");
    topology.addSink("decisions", args[4], bytes.serializer(), bytes.serializer(), "answers");

    var settings = new Properties();
    settings.put(StreamsConfig.BOOTSTRAP_SERVERS_CONFIG, args[0]);
    settings.put(StreamsConfig.APPLICATION_ID_CONFIG, args[1]);
    settings.put(StreamsConfig.PROCESSING_GUARANTEE_CONFIG, args[5]);
    settings.put(StreamsConfig.STATE_DIR_CONFIG, Files.createTempDirectory("streams").toString());
    settings.put(ConsumerConfig.AUTO_OFFSET_RESET_CONFIG, "earliest");
    settings.put(ProducerConfig.LINGER_MS_CONFIG, 5); // by its own default answers wait for 100
    var streams = new KafkaStreams(topology, settings);
    Runtime.getRuntime().addShutdownHook(new Thread(streams::close));
    streams.start();
  }
}
