"""`kafka-wiretap wire`, and the parts that `inspect` shares with it: the protocol shown to people. Imports only `wire`.

    names.py       an api or an error as people type it -> its number; similar names for an unknown one
    packed.py      record batches and their records, decoded
    tree.py        decoded values -> a tree in which ids are text, records are decoded, and secrets are masked
    body.py        a frame's bytes -> that tree, or the reason why there is none
    kafka07.py     requests and responses of Kafka 0.7 -> such trees
    plain.py       that tree as lines of text
    json_text.py   that tree as JSON, piece by piece
    listing.py     the catalog as a table: for the terminal, as JSON, as Markdown
    schema.py      a message at one version: its fields, and the source that was written for it
    layout07.py    the fields of a message of Kafka 0.7
    frames.py      bytes from a terminal, a file or a pipe -> frames -> their trees
    bare.py        bytes without a frame -> their trees
    output.py      a command's output within its budget
    page.py        the page docs/apis.md
    arguments.py   a command's arguments as values
    completions.py completion of these arguments in a shell
    commands.py    the click commands

The commands import most other modules only when they run, so that `--help` is quick.
"""
