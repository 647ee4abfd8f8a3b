"""Captures as Spark DataFrames: one question a module, each a function from DataFrame to DataFrame.

    frames      one row a frame, as recorded                     frames.py
    answers     the error codes inside the responses' bodies     answers.py
    exchanges   a request and its response, joined               exchanges.py
    latency     requests, bytes and percentiles by api           latency.py
    errors      error codes by api                               errors.py
    report      all that `analyze` asks, in one go               report.py

Nothing here opens a session except job.py. Columns are named in columns.py; what a function needs of its input is in
its docstring. Importing this package costs nothing and needs neither Java nor pyspark.
"""
