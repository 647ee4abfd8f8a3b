"""Two captures compared, as values: what changed from the earlier to the later. Nothing here knows Spark.

    facts.py        one capture's side: its APIs, errors, versions, clients, findings
    judged.py       better, worse, new, gone, unchanged: the limits, and when there are too few cases to judge
    rows.py         a change of an API's latency, its traffic, an error, versions, a client, a finding
    pairs.py        two sides -> rows
    whole.py        Changes: all rows and the verdict, to JSON

`recorder.replay.comparison` compares a replay with its recording exchange by exchange, because their requests are the
same. The captures compared here have different requests, so only counts, shares, rates and percentiles are compared.
"""
