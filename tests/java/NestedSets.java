import java.nio.ByteBuffer;
import java.util.HexFormat;
import kafka.message.ByteBufferMessageSet;
import kafka.message.Message;
import kafka.message.MessageAndOffset;

/**
 * What the consumers of Kafka 0.8 read in message sets, wrappers in wrappers included. Each argument is a set as hex; a line
 * of the output holds its messages, each as its offset and its value as hex.
 */
public final class NestedSets {
    public static void main(String[] sets) {
        for (String set : sets) {
            StringBuilder line = new StringBuilder();
            scala.collection.Iterator<MessageAndOffset> found =
                new ByteBufferMessageSet(ByteBuffer.wrap(HexFormat.of().parseHex(set))).iterator();
            while (found.hasNext()) {
                MessageAndOffset one = found.next();
                line.append(one.offset()).append('=').append(value(one.message())).append(' ');
            }
            System.out.println(line.toString().trim());
        }
    }

    private static String value(Message message) {
        message.ensureValid();
        byte[] bytes = new byte[message.payload().remaining()];
        message.payload().get(bytes);
        return HexFormat.of().formatHex(bytes);
    }
}
