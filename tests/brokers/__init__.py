"""Real brokers on loopback: Kafka's jars and how to get them, clusters of them, librdkafka's mock cluster."""
