"""What a setting is: used by everything that has settings, and knows none of them.

errors.py         errors: a value of the wrong kind; settings that are wrong
kinds.py          the kinds of values: reads what a user wrote, and writes it again
addresses.py      addresses, and the kinds of settings that hold them
patterns.py       names and patterns of names: the only matcher
toml.py           values and keys in the notations of TOML, flags and the environment
flags.py          the flags, and the key that each one sets
faults.py         a fault of settings as a value: its sentence, and the keys that the sentence names
certificates.py   whether a page that asks for a token needs a certificate
keys.py           a key: its kind, description and example, in the annotation of the field that it sets
"""
