"""A capture's findings as CloudEvents in a topic: `kafka-wiretap export FOLDER --cloudevents TOPIC`.

    commands   the options, the checks before Spark starts, and the output
    events     findings -> events -> Kafka messages, by the cloudevents SDK: no sockets
    publisher  writes messages to the topic, by confluent-kafka: no events
    message    the Kafka message that both of them know
    refused    the errors: nothing was exported, or only a part

The extra `export` installs both packages.
"""
