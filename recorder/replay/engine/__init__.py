"""The engine: happenings, answers and time in; actions out. No sockets, no clock.

engine                   one replay, as its player sees it
recorded                 what the recording says: requests become items, and meet their recorded answers
sending                  what leaves, and when
answers                  what comes back: learning, comparing, sending once more
finishing                heartbeats of silent members, and the end
play                     what these share: lanes, items and how they end; `item`, `waiting` and `memory` hold them
links  channels  own     connections to the target, and the requests that the replay makes itself
timers                   what is due
world                    the rooms of state, put together
"""
