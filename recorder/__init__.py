"""The recorder of the traffic, and the readers of its captures.

    capture     the tap, the log that it writes, the compactor that turns the log into Parquet, the reader
    inspect     the contents of a capture, without Spark
    analysis    Spark: DataFrame -> DataFrame, one question in each module
    report      reports as one HTML file or as Markdown
    replay      a capture played against another cluster
    encodings   the size of integers in other encodings
    export      findings as CloudEvents, in a topic
    demo        a cluster, clients, the proxy, a capture and its analysis on one machine

The words (frame, exchange, gap, session, ...) are those of the glossary in `proxy/__init__.py`.
"""
