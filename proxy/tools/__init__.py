"""`kafka-wiretap wire`, and what it shares with `inspect`: the protocol shown to people. Knows `wire`, nothing else.

    names.py     an api as people type it -> its key; the nearest name for one that is none
    packed.py    record batches and the records in them, opened
    tree.py      decoded values -> a tree in which ids are text, records are open, and secrets are named as such
    kafka07.py   the same of what Kafka 0.7 says
    plain.py     that tree as lines or as what JSON can hold
    listing.py   the catalog as a table: for the terminal, as JSON, as the page docs/apis.md
    schema.py    a message at one version: its fields, and the source that was written for it
    frames.py    bytes from a terminal, a file or a pipe -> frames -> their trees
    page.py      the page docs/apis.md
    commands.py  the click commands

The commands import the others when they run: `--help` is quick.
"""
