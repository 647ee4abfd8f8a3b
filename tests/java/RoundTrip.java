import java.io.FileReader;
import java.lang.reflect.Method;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;

/**
 * A producer's and a consumer's least work, with the kafka-clients of any release from 0.9 on.
 * Arguments: bootstrap, topic, group, the seconds to give up after, and maybe a file of more settings for both. Each line
 * of stdin is a codec, a tab and a value to produce with it; then the topic is read from its beginning by the group's
 * only member, which prints each value.
 */
public final class RoundTrip {
    private static final Properties MORE = new Properties();

    public static void main(String[] args) throws Exception {
        if (args.length > 4) {
            try (FileReader file = new FileReader(args[4])) {
                MORE.load(file);
            }
        }
        String[] lines = new String(System.in.readAllBytes(), StandardCharsets.UTF_8).split("\n");
        produce(args[0], args[1], lines);
        consume(args[0], args[1], args[2], lines.length, Long.parseLong(args[3]));
    }

    private static void produce(String bootstrap, String topic, String[] lines) throws Exception {
        String codec = "";
        KafkaProducer<byte[], byte[]> producer = null;
        List<Future<RecordMetadata>> promises = new ArrayList<>();
        for (String line : lines) {
            String[] parts = line.split("\t");
            if (!parts[0].equals(codec)) {
                close(producer, promises);
                codec = parts[0];
                producer = new KafkaProducer<>(producerSettings(bootstrap, codec));
            }
            promises.add(producer.send(new ProducerRecord<>(topic, "key".getBytes(), parts[1].getBytes())));
        }
        close(producer, promises);
    }

    private static void close(KafkaProducer<byte[], byte[]> producer, List<Future<RecordMetadata>> promises) throws Exception {
        if (producer == null) {
            return;
        }
        producer.close();
        for (Future<RecordMetadata> promise : promises) {
            promise.get();
        }
        promises.clear();
    }

    private static void consume(String bootstrap, String topic, String group, int count, long seconds) throws Exception {
        long deadline = System.nanoTime() + Duration.ofSeconds(seconds).toNanos();
        try (KafkaConsumer<byte[], byte[]> consumer = new KafkaConsumer<>(consumerSettings(bootstrap, group))) {
            consumer.subscribe(Collections.singletonList(topic));
            int seen = 0;
            while (seen < count) {
                if (System.nanoTime() > deadline) {
                    throw new IllegalStateException(seen + " of " + count + " records after " + seconds + " s");
                }
                for (ConsumerRecord<byte[], byte[]> record : poll(consumer)) {
                    System.out.println(new String(record.value(), StandardCharsets.UTF_8));
                    seen++;
                }
            }
            consumer.commitSync();
        }
    }

    /** Its argument was a number of milliseconds up to 3.9, and is a Duration since 2.0. */
    @SuppressWarnings("unchecked")
    private static ConsumerRecords<byte[], byte[]> poll(KafkaConsumer<byte[], byte[]> consumer) throws Exception {
        for (Method method : KafkaConsumer.class.getMethods()) {
            if (method.getName().equals("poll") && method.getParameterTypes()[0] == Duration.class) {
                return (ConsumerRecords<byte[], byte[]>) method.invoke(consumer, Duration.ofMillis(500));
            }
        }
        return (ConsumerRecords<byte[], byte[]>) KafkaConsumer.class.getMethod("poll", long.class).invoke(consumer, 500L);
    }

    private static Properties producerSettings(String bootstrap, String codec) {
        Properties settings = new Properties();
        settings.putAll(MORE);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("acks", "all");
        settings.put("linger.ms", "5");
        settings.put("compression.type", codec);
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        return settings;
    }

    private static Properties consumerSettings(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.putAll(MORE);
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        return settings;
    }
}
