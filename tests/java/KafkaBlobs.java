import java.nio.ByteBuffer;
import java.util.HexFormat;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.ConsumerPartitionAssignor;
import org.apache.kafka.clients.consumer.CooperativeStickyAssignor;
import org.apache.kafka.clients.consumer.StickyAssignor;
import org.apache.kafka.common.TopicIdPartition;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.Uuid;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.security.auth.KafkaPrincipal;
import org.apache.kafka.common.security.authenticator.DefaultKafkaPrincipalBuilder;
import org.apache.kafka.connect.runtime.distributed.ConnectProtocol;
import org.apache.kafka.connect.runtime.distributed.ExtendedAssignment;
import org.apache.kafka.connect.runtime.distributed.ExtendedWorkerState;
import org.apache.kafka.connect.runtime.distributed.IncrementalCooperativeConnectProtocol;
import org.apache.kafka.connect.util.ConnectorTaskId;
import org.apache.kafka.server.log.remote.metadata.storage.serialization.RemoteLogMetadataSerde;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteMetadata;
import org.apache.kafka.server.log.remote.storage.RemotePartitionDeleteState;

/**
 * Blobs whose layout, or whose frame, is written by hand in Kafka: a line each, its label and its bytes in hex.
 */
public final class KafkaBlobs {
    private static final String URL = "http://w1:8083/";
    private static final List<ConnectorTaskId> TASKS = List.of(new ConnectorTaskId("files", 0), new ConnectorTaskId("files", 7));

    public static void main(String[] args) throws Exception {
        connect();
        assignor("sticky", new StickyAssignor());
        assignor("cooperative-sticky", new CooperativeStickyAssignor());
        print("principal", new DefaultKafkaPrincipalBuilder(null, null).serialize(new KafkaPrincipal("User", "alice", true)));
        for (ControlRecordType type : ControlRecordType.values()) {
            if (type != ControlRecordType.UNKNOWN) {
                print("control-" + type, type.recordKey());
            }
        }
        print("commit-value", new EndTransactionMarker(ControlRecordType.COMMIT, 9).serializeValue());
        print("remote-delete", new RemoteLogMetadataSerde().serialize(new RemotePartitionDeleteMetadata(
            new TopicIdPartition(new Uuid(1, 2), new TopicPartition("t", 3)),
            RemotePartitionDeleteState.DELETE_PARTITION_FINISHED, 123, 5)));
    }

    private static void connect() {
        ConnectProtocol.Assignment eager = new ConnectProtocol.Assignment((short) 1, "w1", URL, 5, List.of("files"), TASKS);
        print("metadata-0", ConnectProtocol.serializeMetadata(new ConnectProtocol.WorkerState(URL, 5)));
        print("assignment-0", ConnectProtocol.serializeAssignment(eager));
        for (short version = 1; version <= 2; version++) {
            ExtendedAssignment assignment = new ExtendedAssignment(
                version, (short) 1, "w1", URL, 5, List.of("files"), TASKS, List.of("sink"), List.of(), 300_000);
            ExtendedAssignment none = new ExtendedAssignment(
                version, (short) 0, "w1", URL, 5, List.of(), List.of(), List.of(), List.of(), 0);
            boolean sessioned = version == 2;
            print("assignment-" + version, IncrementalCooperativeConnectProtocol.serializeAssignment(assignment, sessioned));
            print("no-assignment-" + version, IncrementalCooperativeConnectProtocol.serializeAssignment(none, sessioned));
            print("metadata-" + version, IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState(URL, 5, assignment), sessioned));
            print("new-metadata-" + version, IncrementalCooperativeConnectProtocol.serializeMetadata(
                new ExtendedWorkerState(URL, 5, null), sessioned));
        }
    }

    private static void assignor(String label, ConsumerPartitionAssignor assignor) {
        List<TopicPartition> held = List.of(new TopicPartition("t", 0), new TopicPartition("t", 3));
        assignor.onAssignment(
            new ConsumerPartitionAssignor.Assignment(held), new ConsumerGroupMetadata("g", 7, "m", Optional.empty()));
        print(label, assignor.subscriptionUserData(Set.of("t")));
    }

    private static void print(String label, ByteBuffer buffer) {
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        print(label, bytes);
    }

    private static void print(String label, byte[] bytes) {
        System.out.println(label + " " + HexFormat.of().formatHex(bytes));
    }
}
