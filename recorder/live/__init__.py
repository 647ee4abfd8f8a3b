"""The traffic as it passes, for those who look: read in one niced process beside the proxy, which never waits for it.

    consumer      what gets each exchange, and each gap: `Consumer`
    stream        follows the log, and feeds the consumers
    otlp          each n-th exchange as a span, and the proxy's metrics, to a collector
    process       what the proxy starts and keeps running: one for all of its workers; answers over a Unix socket
    page          the page (`recorder.page`) over the stream
    feed          the log of a proxy that records nothing: bounded, in memory, read once
    beside_proxy  what the proxy's process knows: the folder, the command line, how the process is asked

Where the proxy records, the stream reads the capture's log. Else the proxy has a tap all the same, whose log is a small
one in memory (`feed`). So whoever looks costs the proxy what recording costs, and a stream that is too slow misses
frames, which are counted.
"""
