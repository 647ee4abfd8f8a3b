"""Fills the report's sections: Spark reduces exchanges, connections and bodies to what a page can hold.

Each file holds one section of `summary.whole.SECTIONS`. `findings` and `method` have no file: the rules of
`recorder/analysis/findings` find the former, and `summarize` knows the latter.

A section's function runs its queries at once, and collects no more rows than the section's bounds (`summary.bounds`)
allow.
"""
