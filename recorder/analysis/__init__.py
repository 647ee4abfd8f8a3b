"""Captures as Spark DataFrames: tables of what was recorded, questions about them, findings.

    schema      how a table is declared: columns, types, meanings
    decode/     frames -> rows, by the wire alone, without Spark
    scan        what Python's workers read of a capture by themselves; pushed: filters that choose what they read
    bodies      the two roads by which frames reach the decoders
    data_source    the same tables as Spark's `format("kafka-wiretap")`
    kept        tables that several questions read, made once; at_once: questions from a few threads
    expressions what tables, questions and findings compute alike
    tables/     the tables: DataFrame -> DataFrame
    sources     all tables by their names; how a capture is opened
    questions/  answers: DataFrame -> small DataFrame, one question a function
    questions/sections/    the report's sections
    findings/   rules: what is wrong; `judge` applies them
    summary/    a report as values, without Spark; summarize: how Spark fills it
    asked       what `analyze` is asked by, and of which exchanges
    report      all answers of `analyze`, from the same exchanges
    streaming   a capture that grows: windows of latency and errors; checkpoint: whose it is
    views       SQL over the tables
    running     a question asked in a session of its own, and what its errors come to
    job         the one place that opens a session; java, ship: what it needs of this machine and sends to others
    screen, output, listing    answers and tables as text
    summary/    a capture's report as values of bounded size; neither Spark nor a page

columns.py names the columns that only these tables have; each function's docstring names the columns that it needs.
Importing this package costs nothing and needs neither Java nor pyspark. What it is for: docs/analysis.md.
"""
