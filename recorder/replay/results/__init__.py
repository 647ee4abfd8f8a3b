"""What a replay found, for people and programs: JSON, a terminal, one difference with its frames.

report                   JSON and back
summary  planned  live   a result, a plan and the progress on a terminal; `words`, their sentences
kept  show               what is kept of a difference, and how it is shown
"""
