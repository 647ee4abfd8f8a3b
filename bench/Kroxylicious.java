import io.kroxylicious.proxy.KafkaProxy;
import io.kroxylicious.proxy.config.ConfigParser;
import io.kroxylicious.proxy.internal.config.Features;
import java.nio.file.Files;
import java.nio.file.Path;

/** Kroxylicious with a settings file, as its own command starts it: {@code Kroxylicious SETTINGS ADDRESS}.
 * Says on stderr that it listens on that address once it does. */
public class Kroxylicious {
    public static void main(String[] arguments) throws Exception {
        var parser = new ConfigParser();
        var settings = parser.parseConfiguration(Files.readString(Path.of(arguments[0])));
        try (var proxy = new KafkaProxy(parser, settings, Features.defaultFeatures())) {
            proxy.startup();
            System.err.println("listening on " + arguments[1]);
            proxy.block();
        }
    }
}
