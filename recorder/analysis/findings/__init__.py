"""Findings: what is wrong in a capture, by rules that run on Spark.

    rule.py          a rule: its function, threshold, sentence and advice
    rows.py          the rows that a rule's function makes: one for each subject and window of time
    windows.py       the windows of a capture
    tables.py        the tables that rules read, each made once
    counting.py      the two shapes of most rules: a share of cases, a rate of cases
    answers.py       rules on what brokers answered: errors, refusals, missing answers
    speed.py         rules on latency and on long polls
    peers.py         rules on clients and their connections
    topics.py        rules on the record batches of topics
    logs.py          rules on logs: duplicates, gaps, damage, wrong clocks, repeated reads
    transactions.py  rules on transactional producers
    groups.py        rules on consumer groups
    stale_leaders.py a rule on requests that don't reach a partition's leader
    cluster.py       rules on the brokers: replicas, load, records that were deleted
    recording.py     a rule on the capture itself
    rules.py         RULES: all rules with their settings; group_rules.py and log_rules.py are parts of it
    thresholds.py    the user's own thresholds
    listing.py       the page of all rules, docs/findings.md
    causes.py        CAUSES: which findings others cause, without Spark
    judge.py         applies the rules, and the conditions that all of them share

A rule's function only counts. `judge` compares the counts with thresholds, and demands that they last.
"""
