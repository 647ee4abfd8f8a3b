"""A capture's report as values of bounded size, which Spark fills. Nothing here knows Spark or HTML.

    bounds.py    how much a report holds: time bins, rows, marks; the tables that keep to it
    sections/    the sections, a file for each
    words.py     a measure in words
    whole.py     Summary: all sections, to JSON and back; SECTIONS: their names

Names carry units: `_ns`, `_ms`, `_bytes`. Times named `…_at_ns`, `from_ns` and `to_ns` count from 1970. None is an
unknown value. A section that could not be made says why in `not_judged`. Names of topics, clients and groups are
foreign text: the code that shows them escapes it.
"""
