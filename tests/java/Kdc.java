import java.io.File;
import org.apache.kerby.kerberos.kerb.server.KdcConfigKey;
import org.apache.kerby.kerberos.kerb.server.SimpleKdcServer;

/**
 * A Kerberos key distribution centre (Apache Kerby) that keeps nothing. Arguments: a folder, port, realm, principals.
 * Each principal's keys are in the keytab of the folder when "ready" is printed. Ends when its input does.
 */
public final class Kdc {
    public static void main(String[] args) throws Exception {
        // the server's threads would keep a program that has failed alive
        Thread.setDefaultUncaughtExceptionHandler((thread, failure) -> {
            failure.printStackTrace();
            Runtime.getRuntime().halt(1);
        });
        File folder = new File(args[0]);
        SimpleKdcServer server = new SimpleKdcServer();
        server.setWorkDir(folder);
        server.setKdcHost("127.0.0.1");
        server.setAllowUdp(false);
        server.setKdcTcpPort(Integer.parseInt(args[1]));
        server.setKdcRealm(args[2]);
        server.getKdcConfig().setString(KdcConfigKey.PREAUTH_REQUIRED, "false");
        server.init();
        server.start();
        File keytab = new File(folder, "keytab");
        for (int at = 3; at < args.length; at++) {
            server.createPrincipal(args[at]);
            server.exportPrincipal(args[at], keytab);
        }
        System.out.println("ready");
        while (System.in.read() >= 0) {
            // only its end is waited for
        }
        System.exit(0);
    }
}
