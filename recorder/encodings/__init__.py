"""The study of KAFKA-9927 over a capture: what integers in groups of 7 bits would take, and cost.

    commands   `kafka-wiretap encodings FOLDER`
    study      the table `encodings`, summed by api and by field
    times      how long messages take to be written and read in each encoding
    document   what the document says itself, and where it contradicts itself
    screen     all of it on a terminal

Sizes are `proxy.wire.sizes`; docs/encodings.md tells what the encodings are.
"""
