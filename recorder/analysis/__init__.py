"""Captures as Spark DataFrames: one question a module, each a function from DataFrame to DataFrame.

    frames      one row a frame, as recorded                     frames.py
    answers     the error codes inside the responses' bodies     answers.py
    exchanges   a request and its response, joined               exchanges.py
    latency     requests, bytes and percentiles by api           latency.py
    errors      error codes by api                               errors.py
    coverage    of how many responses the errors are known       coverage.py
    losses      gaps, left-out frames, sessions that died        losses.py
    report      all tables of `analyze`, from one scan           report.py

Only job.py opens a session. columns.py names the columns that only these tables have; each function's docstring names
the columns that it needs. Importing this package costs nothing and needs neither Java nor pyspark.
"""
