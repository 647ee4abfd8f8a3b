"""The study of KAFKA-9927 over a capture: the size and the time of integers in groups of 7 bits.

    commands   `kafka-wiretap encodings FOLDER`
    study      the table `encodings`, summed by api and by field
    times      the time to write and read messages in each encoding
    document   KAFKA-9927's own figures, and its contradictions
    screen     the study on a terminal

Sizes come from `proxy.wire.sizes`; docs/encodings.md explains the encodings.
"""
