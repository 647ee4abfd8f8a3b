import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.util.HexFormat;
import org.apache.kafka.common.utils.ByteUtils;

/**
 * Kafka's integers in groups of 7 bits: a line in, a line out.
 *
 * <p>A line is "u32 -1", "s32 -1", "u64 -1" or "s64 -1" and is answered with the bytes in hexadecimal and the size that Kafka works
 * out beforehand; or "U32 ff01" and so on, answered with the value and how many bytes it took, or "error".
 */
public final class Varints {
    public static void main(String[] args) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in));
        StringBuilder out = new StringBuilder();
        for (String line = in.readLine(); line != null; line = in.readLine()) {
            String[] asked = line.split(" ");
            out.append(Character.isLowerCase(line.charAt(0)) ? written(asked[0], Long.parseLong(asked[1]))
                : read(asked[0], ByteBuffer.wrap(HexFormat.of().parseHex(asked[1])))).append('\n');
        }
        System.out.print(out);
    }

    private static String written(String type, long value) {
        ByteBuffer bytes = ByteBuffer.allocate(10);
        int size;
        switch (type) {
            case "u32":
                ByteUtils.writeUnsignedVarint((int) value, bytes);
                size = ByteUtils.sizeOfUnsignedVarint((int) value);
                break;
            case "s32":
                ByteUtils.writeVarint((int) value, bytes);
                size = ByteUtils.sizeOfVarint((int) value);
                break;
            case "u64":
                ByteUtils.writeUnsignedVarlong(value, bytes);
                size = ByteUtils.sizeOfUnsignedVarlong(value);
                break;
            default:
                ByteUtils.writeVarlong(value, bytes);
                size = ByteUtils.sizeOfVarlong(value);
        }
        return HexFormat.of().formatHex(bytes.array(), 0, bytes.position()) + " " + size;
    }

    private static String read(String type, ByteBuffer bytes) throws Exception {
        Method unsignedLong = ByteUtils.class.getDeclaredMethod("readUnsignedVarlong", ByteBuffer.class);  // not public
        unsignedLong.setAccessible(true);
        try {
            long value = switch (type) {
                case "U32" -> ByteUtils.readUnsignedVarint(bytes);
                case "S32" -> ByteUtils.readVarint(bytes);
                case "U64" -> (long) unsignedLong.invoke(null, bytes);
                default -> ByteUtils.readVarlong(bytes);
            };
            return value + " " + bytes.position();
        } catch (ReflectiveOperationException | RuntimeException error) {
            return "error";
        }
    }
}
