"""The sections of a capture's report in words, tables and plots (as values): for HTML and for Markdown.

Each file holds one section of `summary.whole.SECTIONS`. Findings are no section like the others: they are cards, each
with its time, its measure, and the commands that show the evidence.
"""
