"""Real brokers on loopback: Kafka's jars and their download, Kafka clusters, librdkafka's mock cluster."""
