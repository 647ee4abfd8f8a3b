import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import org.apache.kafka.common.config.ConfigDef;

/**
 * Says which settings a release of Kafka knows: for every ConfigDef that the named classes keep, each setting's name and
 * type on a line. Classes that the release does not have are passed over.
 */
public class ConfigNames {
    public static void main(String[] classes) throws Exception {
        for (String name : classes) {
            try {
                print(Class.forName(name), null);
                Class<?> module = Class.forName(name + "$");
                print(module, module.getField("MODULE$").get(null));
            } catch (ClassNotFoundException absent) {
                // another release's, or Java's and not Scala's
            }
        }
    }

    private static void print(Class<?> type, Object instance) throws Exception {
        for (Field field : type.getDeclaredFields()) {
            boolean isThere = instance != null || Modifier.isStatic(field.getModifiers());
            if (isThere && ConfigDef.class.isAssignableFrom(field.getType())) {
                field.setAccessible(true);
                for (ConfigDef.ConfigKey key : ((ConfigDef) field.get(instance)).configKeys().values())
                    System.out.println(key.name + " " + key.type);
            }
        }
    }
}
