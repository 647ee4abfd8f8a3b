"""What a setting is: known by everything that has settings, knowing none of them.

errors.py     a value that is misread, settings that can't be
kinds.py      what may be written for a value, and how the value is written again
addresses.py  an address, and what may be written for one
toml.py       right values and keys as TOML has them
flags.py      the flags, and which key each one sets
faults.py     what is wrong with settings: the keys that a sentence speaks of, apart from its words
keys.py       a key: its kind, description and example, next to the field that it sets
"""
