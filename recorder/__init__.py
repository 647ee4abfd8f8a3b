"""The recorder of the traffic, and the readers of its captures.

    capture     the tap, the log it writes, the compactor that makes Parquet of it, the reader
    inspect     the contents of a capture, without Spark
    analysis    Spark: DataFrame -> DataFrame, one question a module
    encodings   what integers would take in other encodings
    export      findings as CloudEvents, in a topic
    demo        a cluster, clients, the proxy, a capture and its analysis on one machine

The words (frame, exchange, gap, session, ...) are those of the glossary in `proxy/__init__.py`.
"""
