"""Findings: what is wrong in a capture, by rules that Spark works out.

    rows.py          the rows that rules make: one for each subject and window of time
    rule.py          a rule: its function, threshold, sentence and advice
    windows.py       the windows of a capture, and those of them that are judged
    tables.py        the tables that rules read, each made once
    counting.py      the two shapes of most rules: a share of cases, a rate of cases
    answers.py       rules on what brokers answered: errors, refusals, silence
    speed.py         rules on latency and on long polls
    peers.py         rules on clients and their connections
    topics.py        rules on the record batches of topics
    logs.py          rules on what stands in logs: twice, not at all, damaged, ahead of time, read again
    transactions.py  rules on transactional producers
    cluster.py       rules on the brokers: replicas, load, records that were deleted
    recording.py     rules on the capture itself
    rules.py         RULES: all of them, with thresholds, sentences, advice; log_rules.py: those on logs and brokers
    thresholds.py    thresholds of the user's own
    listing.py       the page of all rules
    judge.py         applies the rules, and the conditions that all of them share

A rule counts; it decides nothing. `judge` compares its measures with thresholds and demands that they last.
"""
