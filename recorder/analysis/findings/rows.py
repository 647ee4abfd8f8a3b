"""The rows that a rule's function makes: one for each subject and window of time.

A row says how often something happened (CASES), out of how many chances (OF), and how bad it is (MEASURE). The rule's
sentence is filled with these values and with the row's WORDS.
"""

from __future__ import annotations

SUBJECT, WINDOW, MEASURE = "subject", "window", "measure"
CASES, OF = "cases", "of"
FROM_NS, TO_NS = "from_ns", "to_ns"
WORDS, EVIDENCE = "words", "evidence"
CLIENTS, NODES = "clients", "nodes"
# SUBJECT: a client, a node, a group, ..., as text; WINDOW: its number; OF: null if cases are no share; FROM_NS, TO_NS:
# the first and the last case; WORDS: further words of the sentence; EVIDENCE: one case, the worst if there is an order;
# CLIENTS, NODES: families of clients and nodes of the cases, by which findings with one cause are found; empty: unknown
ROWS = {
    SUBJECT: "string",
    WINDOW: "bigint",
    CASES: "bigint",
    OF: "bigint",
    MEASURE: "double",
    FROM_NS: "bigint",
    TO_NS: "bigint",
    WORDS: "map<string,string>",
    EVIDENCE: "struct<session:string,connection:bigint,exchange:bigint,at_ns:bigint>",
    CLIENTS: "array<string>",
    NODES: "array<int>",
}
