"""Captures as Spark DataFrames: tables of what was recorded, questions about them, findings.

    decode/     frames -> rows of keys and values, without Spark; all other rows are `recorder.facts`
    scan        how Python workers read a capture's files; pushed: filters that choose files, row groups and rows
    bodies      the two roads by which frames reach the decoders; report_decoders: a report's, in one pass
    data_source    the same tables as Spark's `format("kafka-wiretap")`
    table_cache    tables that several questions read, computed once; parallel_questions: runs questions in threads
    expressions column expressions that tables, questions and findings share
    tables/     the tables: DataFrame -> DataFrame
    sources     all tables by name; opens a capture
    questions/  answers: DataFrame -> small DataFrame, one question a function
    questions/sections/    the report's sections
    findings/   rules that detect what is wrong; `judge` applies them
    summary/    a capture's report as values of bounded size, without Spark or HTML; summarize: how Spark fills it
    change/     two captures compared, as values without Spark; capture_facts: how Spark fills one side
    group_and_filter    the grouping, window and filters of `analyze`
    report      all answers of `analyze`, from the same exchanges
    streaming   windows of latency and errors of a growing capture; batch_progress: what its batches wrote;
                checkpoint: which stream owns a checkpoint
    views       SQL over the tables
    running     runs a question in its own Spark session, and translates errors
    embedded    opens sessions on the embedded engine; embedded_process: starts and ends its process, which is
                embedded_server
    place       where a capture is, and which engine answers about it, without pyspark
    job         opens Spark sessions; executor_zip: zips the code for executors
    tasks       does something with each of many files, in Python workers
    java, master, store    checks that fail sooner and more clearly than Spark would
    screen, output, listing    answers and tables as text

columns.py names the columns that only these tables have; each function's docstring names the columns that it needs.
Importing this package costs nothing and needs neither Java nor pyspark. What it is for: docs/analysis.md.
"""
