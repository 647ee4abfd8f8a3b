"""`kafka-wiretap top`: a running proxy's traffic in the terminal, as it passes (docs/top.md).

    client    asks the proxy's admin page, with the token
    model     what is shown: rows of each view, rates, order; no terminal in it
    screen    tables, keys and screens (Textual alone is imported here)
    command   the command

The proxy's side is `recorder.live.top`, behind `recorder.live.door`.
"""
