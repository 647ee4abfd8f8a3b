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
import java.util.ArrayList;
import java.util.List;
import org.apache.kafka.common.compress.Compression;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.header.internals.RecordHeader;
import org.apache.kafka.common.message.KRaftVersionRecord;
import org.apache.kafka.common.message.LeaderChangeMessage;
import org.apache.kafka.common.message.SnapshotFooterRecord;
import org.apache.kafka.common.message.SnapshotHeaderRecord;
import org.apache.kafka.common.message.VotersRecord;
import org.apache.kafka.common.record.TimestampType;
import org.apache.kafka.common.record.internal.ControlRecordType;
import org.apache.kafka.common.record.internal.DefaultRecordBatch;
import org.apache.kafka.common.record.internal.EndTransactionMarker;
import org.apache.kafka.common.record.internal.MemoryRecords;
import org.apache.kafka.common.record.internal.MemoryRecordsBuilder;
import org.apache.kafka.common.record.internal.MutableRecordBatch;
import org.apache.kafka.common.record.internal.Record;
import org.apache.kafka.common.record.internal.RecordBatch;
import org.apache.kafka.common.utils.ByteBufferOutputStream;

/**
 * Kafka's own record batches and message sets, written and read over a pipe.
 *
 * <p>Every question and every answer is an int32 length and JSON text; an answer has a status before the text (0, or 1 for an
 * error and its text). A question with "bytes" (base64) is answered by the batches in them, checksums verified, each with its
 * records. Any other describes a batch of "records", one with a "control" record, or an empty one ("lastOffset"); it is
 * answered by its "bytes". Ends when its input does. Before 4.2 the packages' names have no "internal": kafka_records.py.
 */
public final class KafkaRecords {
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
        if (question.has("bytes")) {
            return batches(question.get("bytes").binaryValue());
        }
        ObjectNode answer = new ObjectNode(JsonNodeFactory.instance);
        ByteBuffer written = question.has("lastOffset") ? empty(question) : write(question);
        byte[] bytes = new byte[written.remaining()];
        written.get(bytes);
        return answer.put("bytes", bytes);
    }

    private static ByteBuffer empty(JsonNode q) {
        ByteBuffer buffer = ByteBuffer.allocate(DefaultRecordBatch.RECORD_BATCH_OVERHEAD);
        DefaultRecordBatch.writeEmptyHeader(buffer, RecordBatch.CURRENT_MAGIC_VALUE, q.get("producerId").asLong(),
            (short) q.get("producerEpoch").asInt(), q.get("baseSequence").asInt(), q.get("baseOffset").asLong(),
            q.get("lastOffset").asLong(), q.get("leaderEpoch").asInt(), timestampType(q), q.get("timestamp").asLong(),
            q.get("transactional").asBoolean(), false);
        return buffer.flip();
    }

    private static ByteBuffer write(JsonNode q) throws IOException {
        MemoryRecordsBuilder builder = new MemoryRecordsBuilder(new ByteBufferOutputStream(1024), (byte) q.get("magic").asInt(),
            Compression.of(q.get("codec").asText()).build(), timestampType(q), q.get("baseOffset").asLong(),
            q.get("logAppendTime").asLong(), q.get("producerId").asLong(), (short) q.get("producerEpoch").asInt(),
            q.get("baseSequence").asInt(), q.get("transactional").asBoolean(), q.has("control"), q.get("leaderEpoch").asInt(),
            Integer.MAX_VALUE, q.get("deleteHorizon").asLong());
        if (q.has("control")) {
            control(builder, q.get("control").asText(), q.get("timestamp").asLong(), q.get("coordinatorEpoch").asInt());
        } else {
            for (JsonNode one : q.get("records")) {
                append(builder, one);
            }
        }
        return builder.build().buffer();
    }

    private static TimestampType timestampType(JsonNode q) {
        return TimestampType.valueOf(q.get("timestampType").asText());
    }

    private static void append(MemoryRecordsBuilder builder, JsonNode one) throws IOException {
        List<Header> headers = new ArrayList<>();
        for (JsonNode header : one.get("headers")) {
            headers.add(new RecordHeader(header.get(0).asText(), bytes(header.get(1))));
        }
        builder.appendWithOffset(one.get("offset").asLong(), one.get("timestamp").asLong(), bytes(one.get("key")),
            bytes(one.get("value")), headers.toArray(new Header[0]));
    }

    private static void control(MemoryRecordsBuilder builder, String kind, long timestamp, int coordinatorEpoch) {
        switch (kind) {
            case "LEADER_CHANGE" -> builder.appendLeaderChangeMessage(timestamp, new LeaderChangeMessage().setLeaderId(7));
            case "SNAPSHOT_HEADER" -> builder.appendSnapshotHeaderMessage(timestamp, new SnapshotHeaderRecord());
            case "SNAPSHOT_FOOTER" -> builder.appendSnapshotFooterMessage(timestamp, new SnapshotFooterRecord());
            case "KRAFT_VERSION" -> builder.appendKRaftVersionMessage(timestamp, new KRaftVersionRecord());
            case "KRAFT_VOTERS" -> builder.appendVotersMessage(timestamp, new VotersRecord());
            default -> builder.appendEndTxnMarker(timestamp,
                new EndTransactionMarker(ControlRecordType.valueOf(kind), coordinatorEpoch));
        }
    }

    private static JsonNode batches(byte[] data) {
        ArrayNode found = new ArrayNode(JsonNodeFactory.instance);
        for (MutableRecordBatch batch : MemoryRecords.readableRecords(ByteBuffer.wrap(data)).batches()) {
            batch.ensureValid();
            ObjectNode one = found.addObject();
            one.put("magic", batch.magic());
            one.put("codec", batch.compressionType().name);
            one.put("timestamp_type", batch.timestampType().name());
            one.put("last_offset", batch.lastOffset());
            one.put("transactional", batch.isTransactional());
            one.put("control", batch.isControlBatch());
            one.put("producer_id", batch.producerId());
            one.put("producer_epoch", batch.producerEpoch());
            one.put("base_sequence", batch.baseSequence());
            one.put("leader_epoch", batch.partitionLeaderEpoch());
            one.put("max_timestamp", batch.maxTimestamp());
            one.put("crc", batch.checksum());
            one.put("size", batch.sizeInBytes());
            if (batch.magic() > 1) {
                one.put("base_offset", batch.baseOffset());
                one.put("count", batch.countOrNull());
                one.put("delete_horizon", batch.deleteHorizonMs().isPresent() ? batch.deleteHorizonMs().getAsLong() : null);
            }
            ArrayNode records = one.putArray("records");
            for (Record record : batch) {
                record.ensureValid();
                record(records.addObject(), batch, record);
            }
        }
        return found;
    }

    private static void record(ObjectNode one, RecordBatch batch, Record record) {
        one.put("offset", record.offset());
        one.put("timestamp", record.timestamp());
        one.put("key", bytes(record.key()));
        one.put("value", bytes(record.value()));
        ArrayNode headers = one.putArray("headers");
        for (Header header : record.headers()) {
            headers.addArray().add(header.key()).add(header.value());
        }
        if (batch.isControlBatch()) {
            one.put("control", ControlRecordType.parse(record.key()).name());
        }
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
