"""The engine: happenings, answers and time in; actions out. No sockets, no clock.

engine                   exchanges on their way; `item`, `waiting` and `memory` hold them
links  channels  own     connections to the target, and the requests that the replay makes itself
timers                   what is due
world                    the rooms of state, put together
"""
