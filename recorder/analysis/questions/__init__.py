"""Questions about a capture: each a function from the DataFrames of `tables` to a small DataFrame of answers.

latency     requests, bytes, percentiles; logarithmic buckets that add up
errors      error codes
coverage    of how many responses the errors are known
losses      gaps, left-out frames, sessions that died
groups      what answers are told by
sections/   what the report shows: all of it reduced to what a page holds
"""
