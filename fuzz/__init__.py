"""Fuzzes all readers of bytes that peers send: `make fuzz SECONDS=60`.

    checks.py         what must hold for any bytes, one function a part of the wire; all checks, for atheris and tests
    conversations.py  what must hold of a whole connection, of client and broker at once
    plays.py          such a connection in one process: the proxy's own relay and tap between scripted peers
    doors.py          checks of the bytes before a first request: PROXY headers, TLS, server names; the admin page
    spools.py         checks of forged recordings: whole sessions with right checksums
    replays.py        the engine of a replay against a target that answers anything
    corpus.py         the frames to start from: corpus/<check>/…, and found/, inputs that once broke something
    scripts.py        conversations to start from, made of the frames, and their mutations
    collect.py        how corpus/ was made: frames of a capture, one of each api and version
    __main__.py       atheris: inputs guided by coverage, of the generated functions too

These promises must hold: only the intended errors are raised; no input takes long; memory is bounded by the input's
size; decoded values encode to bytes that decode to the same values; the bytes of a connection leave as
docs/proxy/frames.md says. `make test-fast` runs the corpus and mutations of it through the same checks.
"""
