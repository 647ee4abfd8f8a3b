import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;

/**
 * Copies partitions to another topic's of the same numbers, exactly once: each transaction has some records and the
 * offset behind them. Every third transaction is aborted and begun again. Each partition has a thread.
 * Arguments: bootstrap, topic, the topic to copy to, the number of partitions, group, what transactional ids begin with,
 * the offset to stop at, and the offset to die at (-1: never), with exit code 9: in the middle of a transaction of which
 * the brokers have records.
 */
public final class Copy {
    private static final int RECORDS_IN_A_TRANSACTION = 20;

    private final KafkaConsumer<byte[], byte[]> consumer;
    private final KafkaProducer<byte[], byte[]> producer;
    private final TopicPartition from;
    private final String to;
    private final long end;
    private final long death;

    private Copy(String[] args, int partition) {
        from = new TopicPartition(args[1], partition);
        to = args[2];
        end = Long.parseLong(args[6]);
        death = Long.parseLong(args[7]);
        consumer = new KafkaConsumer<>(consumerSettings(args[0], args[4]));
        producer = new KafkaProducer<>(producerSettings(args[0], args[5] + "-" + partition));
    }

    public static void main(String[] args) throws Exception {
        ExecutorService threads = Executors.newCachedThreadPool();
        List<Future<?>> copies = new ArrayList<>();
        for (int partition = 0; partition < Integer.parseInt(args[3]); partition++) {
            copies.add(threads.submit(new Copy(args, partition)::run));
        }
        threads.shutdown();
        for (Future<?> copy : copies) {
            copy.get();
        }
    }

    private void run() {
        producer.initTransactions();
        consumer.assign(List.of(from));
        for (int number = 1; consumer.position(from) < end; number++) {
            ConsumerRecords<byte[], byte[]> records = consumer.poll(Duration.ofMillis(500));
            if (!records.isEmpty()) {
                copy(records, number % 3 == 0);
            }
        }
        producer.close();
        consumer.close();
    }

    private void copy(ConsumerRecords<byte[], byte[]> records, boolean inVain) {
        producer.beginTransaction();
        for (ConsumerRecord<byte[], byte[]> record : records) {
            producer.send(new ProducerRecord<>(to, from.partition(), record.key(), record.value()));
            if (record.offset() == death) {
                producer.flush();
                Runtime.getRuntime().halt(9);
            }
        }
        Map<TopicPartition, OffsetAndMetadata> behind = Map.of(from, new OffsetAndMetadata(consumer.position(from)));
        producer.sendOffsetsToTransaction(behind, consumer.groupMetadata());
        if (inVain) {
            producer.abortTransaction();
            consumer.seek(from, records.records(from).get(0).offset());
        } else {
            producer.commitTransaction();
        }
    }

    private static Properties consumerSettings(String bootstrap, String group) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        settings.put("isolation.level", "read_committed");
        settings.put("max.poll.records", String.valueOf(RECORDS_IN_A_TRANSACTION));
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.ByteArrayDeserializer");
        return settings;
    }

    private static Properties producerSettings(String bootstrap, String id) {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        settings.put("transactional.id", id);
        settings.put("linger.ms", "0");
        settings.put("key.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        settings.put("value.serializer", "org.apache.kafka.common.serialization.ByteArraySerializer");
        return settings;
    }
}
