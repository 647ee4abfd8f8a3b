"""Two captures side by side, as values: what changed from the one before to the one after. Nothing here knows Spark.

    facts.py        one capture's side: its APIs, errors, versions, clients, findings
    judged.py       better, worse, new, gone, unchanged: the tables of limits, and when there is too little to tell
    rows.py         a change of an API's latency, its traffic, an error, versions, a client, a finding
    pairs.py        two sides -> rows
    whole.py        Changes: all rows and the verdict, to JSON

A replay's answers against its recording are `recorder.replay.comparison`'s: exchange by exchange, of the same requests.
Here, requests differ, so nothing is compared but counts, shares, rates and percentiles.
"""
