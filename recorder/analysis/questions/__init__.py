"""Questions about a capture. Each is a function from the DataFrames of `tables` to a small DataFrame of answers.

latency     requests, bytes, percentiles; percentiles of logarithmic buckets
errors      error codes
windows     latency and errors as streams, by window
coverage    how many responses have known errors
losses      gaps, left-out frames, sessions that died
encodings   the rows of the study of encodings
groups      the columns by which answers are grouped
bins        the timeline of the report's sections, and values along it
sections/   the report's sections, reduced to what a page holds
"""
