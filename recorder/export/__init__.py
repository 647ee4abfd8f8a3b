"""A capture's findings as CloudEvents in a topic: `kafka-wiretap export FOLDER --cloudevents TOPIC`.

    commands   the options; what is checked before Spark starts; what is said at the end
    events     findings -> events -> Kafka messages, by the cloudevents SDK: no sockets
    publisher  the topic that is written to, by confluent-kafka: no events
    message    what both of them know
    refused    a line and an exit code: nothing was exported, or not all

Both packages are of the extra `export`.
"""
