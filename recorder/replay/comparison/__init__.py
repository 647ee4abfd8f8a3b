"""The verdict on an exchange: `compare.answer_verdict`, a pure function.

`recorder.analysis.change` compares two captures as a whole.

compared_fields                 how each field is compared (the table is in `requests.fields`)
elements  struct_paths          how elements of both answers are matched: by name, not by place
terms  known  expectations      recorded values in the target's terms, and the rooms that know these
tolerated  unions  assigned     errors that are no difference; assignments of a group's members, all together
from_before                     what is from before the recording: not expected of the target, and counted
one_sided                       consequences of a commit that one cluster alone has taken
latency  shown                  which latencies count apart; values as text
"""
