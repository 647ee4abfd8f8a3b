"""What leaves a capture: its findings as CloudEvents in a topic, its frames as a packet dump, its exchanges as spans.

    commands   the options, the checks before Spark starts, and the output
    events     findings -> events -> Kafka messages, by the cloudevents SDK: no sockets
    publisher  writes messages to the topic, by confluent-kafka: no events
    message    the Kafka message that both of them know
    choosing   of packets and spans: the capture, and the filter of the options
    dumping    `--pcapng`: the checks, the file, and the output
    pcapng     frames and events -> packets, with comments
    packets    synthetic TCP in a pcapng file, by python-pcapng: no capture
    traces     `--otlp`: exchanges as spans, to a collector (`recorder.tracing`)
    refused    the errors: nothing was exported, or only a part

The extra `export` installs the SDK of CloudEvents and confluent-kafka, `pcap` python-pcapng, `otlp` that of
OpenTelemetry.
"""
