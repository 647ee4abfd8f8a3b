"""The page: exchanges as they happen, or those of a capture, in a browser (docs/page.md).

    recent     the newest exchanges in bounded memory: searched, found, counted
    counts     sums by API, topic, group, client, node, connection, error; lag by group
    series     throughput and latency by second
    shown      exchanges as JSON
    api        what the page asks (Starlette)
    guard      who may ask: token, Host, Origin
    serving    the server (uvicorn), with or without TLS
    view       feeds a capture's exchanges, finished or growing
    command    `kafka-wiretap view`
    static/    the page itself: HTML, CSS and modules of JavaScript, as they are

A thread feeds `Recent`; the server has another one and reads. Neither waits for a browser.
"""
