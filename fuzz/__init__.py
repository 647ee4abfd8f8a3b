"""Bytes that mean harm against the wire: `make fuzz SECONDS=60`.

    checks.py    what must hold for any bytes, one function a part of the wire; the same for atheris and for the tests
    corpus.py    the frames to start from: corpus/<check>/…, and found/, inputs that once broke something
    collect.py   how corpus/ was made: frames of a capture, one of each api and version
    __main__.py  atheris: inputs guided by coverage, of the generated functions too

What must hold: nothing but the wire's error family is raised; no input takes long; memory is bounded by the input's
size; what was decoded encodes to bytes that decode to the same. `make test-fast` runs the corpus and Hypothesis's
mutations of it through the same checks.
"""
