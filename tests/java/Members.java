import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;

/**
 * Members of a consumer group of the newer protocol (KIP-848) or of a share group (KIP-932) that join and leave as they
 * are told, each on a thread of its own. Arguments: bootstrap, topic, group, "consumer" or "share".
 * Lines of stdin: join NAME, leave NAME; at its end all leave. Lines of stdout: NAME read VALUE, NAME left, and of
 * consumer groups NAME has COUNT (partitions). A member that fails ends the program.
 * What is read is committed or acknowledged at once. In a share group a value that begins with "again" is given back the
 * first time, and one that begins with "never" is rejected.
 */
public final class Members {
    private interface Member {
        void poll();

        void close();
    }

    private static final Duration POLL = Duration.ofMillis(200);

    private final String[] args;
    private final Set<String> staying = ConcurrentHashMap.newKeySet();
    private final Set<String> givenBack = ConcurrentHashMap.newKeySet();

    private Members(String[] args) {
        this.args = args;
    }

    public static void main(String[] args) throws Exception {
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        Members members = new Members(args);
        BufferedReader lines = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = lines.readLine(); line != null; line = lines.readLine()) {
            String[] words = line.split(" ");
            if (words[0].equals("join")) {
                members.staying.add(words[1]);
                new Thread(() -> members.work(words[1])).start();
            } else {
                members.staying.remove(words[1]);
            }
        }
        members.staying.clear();
    }

    private void work(String name) {
        Member member = args[3].equals("share") ? new Sharing(name) : new Consuming(name);
        while (staying.contains(name)) {
            member.poll();
        }
        member.close();
        say(name, "left");
    }

    private static synchronized void say(String name, String what) {
        System.out.println(name + " " + what);
    }

    private Properties settings() {
        Properties settings = new Properties();
        settings.put("bootstrap.servers", args[0]);
        settings.put("group.id", args[2]);
        settings.put("key.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        settings.put("value.deserializer", "org.apache.kafka.common.serialization.StringDeserializer");
        return settings;
    }

    private final class Consuming implements Member {
        private final String name;
        private final KafkaConsumer<String, String> consumer;
        private int partitions;

        Consuming(String name) {
            this.name = name;
            Properties settings = settings();
            settings.put("group.protocol", "consumer");
            settings.put("auto.offset.reset", "earliest");
            settings.put("enable.auto.commit", "false");
            consumer = new KafkaConsumer<>(settings);
            consumer.subscribe(List.of(args[1]));
        }

        @Override
        public void poll() {
            boolean found = false;
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                say(name, "read " + record.value());
                found = true;
            }
            if (found) {
                consumer.commitSync();
            }
            if (consumer.assignment().size() != partitions) {
                partitions = consumer.assignment().size();
                say(name, "has " + partitions);
            }
        }

        @Override
        public void close() {
            consumer.close();
        }
    }

    private final class Sharing implements Member {
        private final String name;
        private final KafkaShareConsumer<String, String> consumer;

        Sharing(String name) {
            this.name = name;
            Properties settings = settings();
            settings.put("share.acknowledgement.mode", "explicit");
            consumer = new KafkaShareConsumer<>(settings);
            consumer.subscribe(List.of(args[1]));
        }

        @Override
        public void poll() {
            boolean found = false;
            for (ConsumerRecord<String, String> record : consumer.poll(POLL)) {
                say(name, "read " + record.value());
                consumer.acknowledge(record, answer(record.value()));
                found = true;
            }
            if (found) {
                consumer.commitSync();
            }
        }

        private AcknowledgeType answer(String value) {
            if (value.startsWith("never")) {
                return AcknowledgeType.REJECT;
            }
            return value.startsWith("again") && givenBack.add(value) ? AcknowledgeType.RELEASE : AcknowledgeType.ACCEPT;
        }

        @Override
        public void close() {
            consumer.close();
        }
    }
}
