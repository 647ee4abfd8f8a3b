import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.record.CompressionType;
import org.apache.kafka.common.record.LogEntry;
import org.apache.kafka.common.record.MemoryRecords;
import org.apache.kafka.common.record.MemoryRecordsBuilder;
import org.apache.kafka.common.record.Record;
import org.apache.kafka.common.record.TimestampType;

/**
 * The message sets of Kafka 0.10, which knew no others: the same questions and answers as those of KafkaRecords, for magic 0
 * and 1. What stands in the log is a "batch", be it a message or a wrapper.
 */
public final class OldKafkaRecords {
    private static final ObjectMapper JSON = new ObjectMapper();

    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(System.in);
        DataOutputStream out = new DataOutputStream(System.out);
        while (true) {
            byte[] question;
            try {
                question = new byte[in.readInt()];
            } catch (EOFException end) {
                return;
            }
            in.readFully(question);
            byte status = 0;
            byte[] answer;
            try {
                answer = JSON.writeValueAsBytes(answer(JSON.readTree(question)));
            } catch (Throwable error) {  // reading foreign bytes may end in any of them
                status = 1;
                answer = String.valueOf(error).getBytes(StandardCharsets.UTF_8);
            }
            out.writeInt(answer.length + 1);
            out.writeByte(status);
            out.write(answer);
            out.flush();
        }
    }

    private static JsonNode answer(JsonNode question) throws IOException {
        return question.has("bytes") ? entries(question.get("bytes").binaryValue()) : write(question);
    }

    private static JsonNode write(JsonNode q) throws IOException {
        MemoryRecordsBuilder builder = MemoryRecords.builder(ByteBuffer.allocate(1 << 20), (byte) q.get("magic").asInt(),
            CompressionType.forName(q.get("codec").asText()), TimestampType.valueOf(q.get("timestampType").asText()),
            q.get("baseOffset").asLong(), q.get("logAppendTime").asLong());
        for (JsonNode one : q.get("records")) {
            builder.appendWithOffset(one.get("offset").asLong(), one.get("timestamp").asLong(), bytes(one.get("key")),
                bytes(one.get("value")));
        }
        return new ObjectNode(JsonNodeFactory.instance).put("bytes", bytes(builder.build().buffer()));
    }

    private static JsonNode entries(byte[] data) {
        ArrayNode found = new ArrayNode(JsonNodeFactory.instance);
        // not what it really holds: those are no public classes
        Iterable<? extends LogEntry> entries = MemoryRecords.readableRecords(ByteBuffer.wrap(data)).shallowEntries();
        for (LogEntry entry : entries) {
            entry.record().ensureValid();
            ObjectNode one = found.addObject();
            one.put("magic", entry.record().magic());
            one.put("codec", entry.record().compressionType().name);
            one.put("timestamp_type", entry.record().timestampType().name());
            one.put("last_offset", entry.offset());
            one.put("max_timestamp", entry.record().timestamp());
            one.put("crc", entry.record().checksum());
            one.put("size", entry.sizeInBytes());
            ArrayNode records = one.putArray("records");
            for (LogEntry inner : entry) {
                inner.record().ensureValid();
                record(records.addObject(), inner.offset(), inner.record());
            }
        }
        return found;
    }

    private static void record(ObjectNode one, long offset, Record record) {
        one.put("offset", offset);
        one.put("timestamp", record.timestamp());
        one.put("key", bytes(record.key()));
        one.put("value", bytes(record.value()));
        one.putArray("headers");
    }

    private static byte[] bytes(JsonNode base64) throws IOException {
        return base64.isNull() ? null : base64.binaryValue();
    }

    private static byte[] bytes(ByteBuffer buffer) {
        if (buffer == null) {
            return null;
        }
        byte[] bytes = new byte[buffer.remaining()];
        buffer.duplicate().get(bytes);
        return bytes;
    }
}
