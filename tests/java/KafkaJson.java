import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import org.apache.kafka.common.errors.RetriableException;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.protocol.ObjectSerializationCache;
import org.apache.kafka.common.protocol.types.RawTaggedField;

/**
 * Kafka's own message classes, asked over a pipe: body bytes to JSON and back.
 *
 * <p>Every command and every answer is an int32 length and that many bytes (all integers big-endian). A command is an operation
 * (one byte, below), the api key and the version (int16 each) and the bytes or the JSON text; an answer is a status (0, or 1 for
 * an error) and the JSON text, the bytes or the error's text. Decoded is {"body": ..., "read": bytes read, "tags": unknown tagged
 * fields of the body by number, base64}. Records are given as "recordsSizeInBytes". Ends when its input does.
 *
 * <p>Operations: Q decode a request body, R decode a response body, q encode a request body, r encode a response body;
 * X and x both ways at once, of a request or a response: behind an int32 length a body's JSON text, then a body's bytes,
 * answered by an int32 length and the encoded JSON, an int32 length and the bytes as Kafka writes them after reading them,
 * and what it read as JSON; D the same of a message of data, whose class is named in front, behind an int32 length;
 * L list every api; E list every error code.
 */
public final class KafkaJson {
    private static final ObjectMapper JSON = new ObjectMapper(new JsonFactory());
    private static final Map<String, Method> METHODS = new HashMap<>();

    public static void main(String[] args) throws IOException {
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 16));
        DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 16));
        while (true) {
            byte[] command;
            try {
                command = new byte[in.readInt()];
            } catch (EOFException end) {
                return;
            }
            in.readFully(command);
            answer(out, ByteBuffer.wrap(command));
            out.flush();
        }
    }

    private static void answer(DataOutputStream out, ByteBuffer command) throws IOException {
        byte status = 0;
        byte[] payload;
        try {
            payload = run((char) command.get(), command.getShort(), command.getShort(), command.slice());
        } catch (Throwable error) {  // reading foreign bytes may end in any of them, OutOfMemoryError included
            Throwable cause = error instanceof InvocationTargetException ? error.getCause() : error;
            status = 1;
            payload = String.valueOf(cause).getBytes(StandardCharsets.UTF_8);
        }
        out.writeInt(payload.length + 1);
        out.writeByte(status);
        out.write(payload);
    }

    private static byte[] run(char operation, short api, short version, ByteBuffer rest) throws Exception {
        if (operation == 'L' || operation == 'E') {
            return JSON.writeValueAsBytes(operation == 'L' ? listing() : errors());
        }
        if (operation == 'D') {
            String name = StandardCharsets.UTF_8.decode(take(rest, rest.getInt())).toString();
            return bothWays((ApiMessage) Class.forName(name).getDeclaredConstructor().newInstance(), version, rest);
        }
        ApiMessageType type = ApiMessageType.fromApiKey(api);
        ApiMessage message = "QqX".indexOf(operation) >= 0 ? type.newRequest() : type.newResponse();
        switch (operation) {
            case 'Q':
            case 'R':
                return JSON.writeValueAsBytes(decode(message, version, rest));
            case 'q':
            case 'r':
                return encode(message, version, rest);
            default:
                return bothWays(message, version, rest);
        }
    }

    private static byte[] bothWays(ApiMessage message, short version, ByteBuffer rest) throws Exception {
        byte[] encoded = encode(message, version, take(rest, rest.getInt()));
        message.read(new ByteBufferAccessor(rest), version);
        if (rest.hasRemaining()) {
            throw new IllegalArgumentException(rest.remaining() + " bytes left over");
        }
        byte[] rewritten = bytes(message, version);
        byte[] json = JSON.writeValueAsBytes(toJson(message, version));
        ByteBuffer answer = ByteBuffer.allocate(8 + encoded.length + rewritten.length + json.length);
        answer.putInt(encoded.length).put(encoded).putInt(rewritten.length).put(rewritten).put(json);
        return answer.array();
    }

    private static ByteBuffer take(ByteBuffer from, int size) {
        byte[] taken = new byte[size];
        from.get(taken);
        return ByteBuffer.wrap(taken);
    }

    private static JsonNode decode(ApiMessage message, short version, ByteBuffer bytes) throws Exception {
        ByteBufferAccessor readable = new ByteBufferAccessor(bytes);
        message.read(readable, version);
        ObjectNode result = new ObjectNode(JsonNodeFactory.instance);
        result.set("body", toJson(message, version));
        result.put("read", bytes.position());
        ObjectNode tags = result.putObject("tags");
        for (RawTaggedField field : message.unknownTaggedFields()) {
            tags.put(Integer.toString(field.tag()), field.data());
        }
        return result;
    }

    private static byte[] encode(ApiMessage message, short version, ByteBuffer json) throws Exception {
        byte[] text = new byte[json.remaining()];
        json.get(text);
        Method read = METHODS.computeIfAbsent("read " + message.getClass().getName(), key ->
            converter(message, "read", JsonNode.class, short.class));
        ApiMessage parsed = (ApiMessage) read.invoke(null, JSON.readTree(text), version);
        return bytes(parsed, version);
    }

    private static byte[] bytes(ApiMessage message, short version) {
        ObjectSerializationCache sizes = new ObjectSerializationCache();
        ByteBuffer encoded = ByteBuffer.allocate(message.size(sizes, version));
        message.write(new ByteBufferAccessor(encoded), sizes, version);
        return encoded.array();
    }

    private static JsonNode toJson(ApiMessage message, short version) throws Exception {
        Method write = METHODS.computeIfAbsent("write " + message.getClass().getName(), key ->
            converter(message, "write", message.getClass(), short.class, boolean.class));
        return (JsonNode) write.invoke(null, message, version, false);
    }

    private static Method converter(ApiMessage message, String name, Class<?>... types) {
        try {
            return Class.forName(message.getClass().getName() + "JsonConverter").getMethod(name, types);
        } catch (ReflectiveOperationException missing) {
            throw new IllegalStateException(missing);
        }
    }

    private static JsonNode errors() {
        ArrayNode errors = new ArrayNode(JsonNodeFactory.instance);
        for (Errors error : Errors.values()) {
            ObjectNode one = errors.addObject();
            one.put("code", error.code());
            one.put("name", error.name());
            one.put("retriable", error.exception() instanceof RetriableException);
            one.put("message", error.exception() == null ? "" : error.exception().getMessage());
        }
        return errors;
    }

    private static JsonNode listing() {
        ArrayNode apis = new ArrayNode(JsonNodeFactory.instance);
        for (ApiMessageType type : ApiMessageType.values()) {
            ObjectNode api = apis.addObject();
            api.put("key", type.apiKey());
            api.put("name", type.name);
            api.put("lowest", type.lowestSupportedVersion());
            api.put("highest", type.highestSupportedVersion(true));
            ArrayNode headers = api.putArray("headers");
            for (short v = type.lowestSupportedVersion(); v <= type.highestSupportedVersion(true); v++) {
                headers.addArray().add(type.requestHeaderVersion(v)).add(type.responseHeaderVersion(v));
            }
        }
        return apis;
    }
}
