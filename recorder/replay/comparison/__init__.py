"""The verdict on an exchange: `compare.verdict`, a pure function.

Two captures as a whole are compared by `recorder.analysis.change`.

volatile  lines          how each field is compared, by tables
elements  places         elements of arrays are met by what names them
terms  known  expectations      recorded values in the target's terms, and who knows them
tolerated  unions  assigned     errors that are no difference; what groups were given, all together
one_sided                what follows from a commit that one cluster alone has taken
latency  shown           which latencies stand apart; values as text
"""
