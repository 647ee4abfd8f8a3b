"""Turns bodies into the rows that hold keys and values, without Spark: all of it is tested without a JVM.

    packed            rows of several tables in one DataFrame
    record_rows       the records of batches
    cloudevents       the CloudEvent in a record, by the Kafka binding; cloudevent_rows: its rows
    messages          any frame as JSON
    encodings         the size of a frame's integers in other encodings

All other rows are facts, which `recorder.facts` reads.
"""
