// Certificates as lines of hexadecimal -> their subjects as Kafka's principals have them, likewise.

import java.io.ByteArrayInputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.util.HexFormat;

public class Subjects {
    public static void main(String[] arguments) throws Exception {
        var factory = CertificateFactory.getInstance("X.509");
        var hex = HexFormat.of();
        for (var line : Files.readAllLines(Path.of(arguments[0]))) {
            var bytes = new ByteArrayInputStream(hex.parseHex(line));
            var certificate = (X509Certificate) factory.generateCertificate(bytes);
            var name = certificate.getSubjectX500Principal().getName();
            System.out.println(hex.formatHex(name.getBytes(StandardCharsets.UTF_8)));
        }
    }
}
