"""The rows that rules make: one for each subject and window of time.

They say how often something happened (CASES), of how many chances (OF), and how bad it is (MEASURE). The sentence of a
finding is made of them and of the row's WORDS.
"""

from __future__ import annotations

SUBJECT, WINDOW, MEASURE = "subject", "window", "measure"
CASES, OF = "cases", "of"
FROM_NS, TO_NS = "from_ns", "to_ns"
WORDS, EVIDENCE = "words", "evidence"
# SUBJECT: who or what, in words; WINDOW: its number; OF: null where cases are no share of anything; FROM_NS, TO_NS: the
# first and last case; WORDS: what the sentence names besides; EVIDENCE: one case, the worst where there is an order
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
}
