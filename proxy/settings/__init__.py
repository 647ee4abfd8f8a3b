"""What the proxy is told: by flags, by the environment, by a file, or not at all.

file.py         a file's bytes, and the tables that they say
sources.py      file, environment, flags: what was given, and where
reader.py       raw values -> dataclasses, or an error line for each fault
wording.py      the error line for a wrong setting, spelled as its source spells settings
load.py         all of it together
reload.py       what changes while the proxy runs
risks.py        warnings and notes about valid settings
options.py      the flags as click's options
show.py         the settings in effect, and their sources
reference.py    docs/settings.md
commands.py     `kafka-wiretap config`

The fields themselves are frozen dataclasses, checked in their constructors: proxy/config/, and the recorder's own.
Standard library only: a schema library would read the types, but neither remember where a value came from nor name the
nearest key, nor word an error for a flag here and a file there; what would be left of its work is in reader.py.
"""
