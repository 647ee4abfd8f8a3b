"""What leaves a capture: its findings as CloudEvents in a topic, its frames as a packet dump.

    commands   the options, the checks before Spark starts, and the output
    events     findings -> events -> Kafka messages, by the cloudevents SDK: no sockets
    publisher  writes messages to the topic, by confluent-kafka: no events
    message    the Kafka message that both of them know
    dumping    `--pcapng`: the checks, the file, and the output
    pcapng     frames and events -> packets, with comments
    packets    synthetic TCP in a pcapng file, by python-pcapng: no capture
    refused    the errors: nothing was exported, or only a part

The extra `export` installs the SDK and confluent-kafka, the extra `pcap` python-pcapng.
"""
