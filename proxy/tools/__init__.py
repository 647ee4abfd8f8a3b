"""`kafka-wiretap wire`, and what it shares with `inspect`: the protocol shown to people. Knows `wire`, nothing else.

    names.py     an api or an error as people type it -> its number; the nearest name for one that is none
    packed.py    record batches and the records in them, opened
    tree.py      decoded values -> a tree in which ids are text, records are open, and secrets are named as such
    body.py      a frame's bytes -> that tree, or why there is none
    kafka07.py   the same of what Kafka 0.7 says
    plain.py     that tree as lines or as what JSON can hold
    listing.py   the catalog as a table: for the terminal, as JSON, as the page docs/apis.md
    schema.py    a message at one version: its fields, and the source that was written for it
    layout07.py  the fields of a message of Kafka 0.7
    frames.py    bytes from a terminal, a file or a pipe -> frames -> their trees
    page.py      the page docs/apis.md
    arguments.py what people type, as values
    commands.py  the click commands

The commands import the others when they run: `--help` is quick.
"""
