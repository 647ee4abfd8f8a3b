"""Results of a replay, for people and programs: as JSON, on a terminal, and one mismatch with its frames.

report                   a result as JSON, and back
summary  planned  live   a result, a plan and the progress on a terminal; `words`, their sentences
mismatches  show         what is kept of answers that differ, and how it is shown
"""
