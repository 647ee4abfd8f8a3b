"""Reads the settings of a proxy from flags, the environment, a file, and defaults.

file.py         reads a settings file
sources.py      file, environment, flags -> raw values, each with its origin
reader.py       raw values -> dataclasses, or an error line for each fault
wording.py      the error line for a wrong setting, spelled as its source spells settings
load.py         the public functions: all sources -> the settings in effect
reload.py       which changed settings take effect while the proxy runs
risks.py        warnings and notes about valid settings
options.py      the flags as click's options
show.py         prints the settings in effect, and their sources
reference.py    makes docs/settings.md
commands.py     `kafka-wiretap config`

The settings themselves are frozen dataclasses, checked in their constructors: in proxy/config/, and in the recorder.
A schema library could replace only a part of reader.py: it would read the types, but would not remember where a value
came from, suggest the nearest key, or spell an error as a flag in one case and as a key of a file in another.
"""
