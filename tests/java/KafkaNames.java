import java.lang.reflect.Method;

/**
 * What a release calls its APIs and its errors: a line each, its kind, its number, its names. Of any release, hence by
 * reflection; "old" is what the Scala code of 0.8 had beside.
 */
public final class KafkaNames {
    public static void main(String[] args) throws ReflectiveOperationException {
        for (Object key : Class.forName("org.apache.kafka.common.protocol.ApiKeys").getEnumConstants()) {
            Class<?> type = key.getClass();
            System.out.println("api " + type.getField("id").get(key) + " " + type.getField("name").get(key));
        }
        for (Object error : Class.forName("org.apache.kafka.common.protocol.Errors").getEnumConstants()) {
            System.out.println("error " + error.getClass().getMethod("code").invoke(error) + " " + ((Enum<?>) error).name());
        }
        constants("old-api", "kafka.api.RequestKeys$", "Key$");
        constants("old-error", "kafka.common.ErrorMapping$", "");
    }

    private static void constants(String kind, String scala, String end) throws ReflectiveOperationException {
        Class<?> type;
        try {
            type = Class.forName(scala);
        } catch (ClassNotFoundException later) {
            return;
        }
        Object module = type.getField("MODULE$").get(null);
        for (Method method : type.getMethods()) {
            if (method.getReturnType() == short.class && method.getParameterCount() == 0) {
                System.out.println(kind + " " + method.invoke(module) + " " + method.getName().replaceAll(end, ""));
            }
        }
    }
}
