"""What is kept of the traffic, and what is done with it.

    capture     the tap, the log it writes, the compactor that makes Parquet of it, the reader
    inspect     what is in a capture, without Spark
    analysis    Spark: DataFrame -> DataFrame, one question a module
    demo        a cluster, clients and all the rest on one machine

The words (frame, exchange, gap, session, ...) are those of the glossary in `proxy/__init__.py`.
"""
