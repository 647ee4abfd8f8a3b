"""`kafka-wiretap demo`: the whole way from real clients to a report, on one machine, in about two minutes.

    cluster.py   a child: librdkafka's mock cluster of three brokers
    workload.py  a child: real clients, confluent-kafka and aiokafka, that produce and consume
    steady.py    further clients; three of them have a bad habit that the report finds
    children.py  starts processes so that none of them outlives the demo, however it ends
    run.py       the order of the steps, and the output at the terminal

The proxy is a child too, started by the command that a user would type.
"""
