"""The engine: recorded happenings, answers and time in; actions out. No sockets, no clock.

engine                   one replay, as its player sees it; heartbeats of silent members, and its end
recorded_side            turns recorded requests into items, and gives each item its recorded answer
sending                  decides when an item leaves, and sends it
answers                  takes the target's answers: rooms learn, answers are compared, or the item is sent once more
play                     state that these share: lanes, items and how they end; `item` and `waiting` hold them
links  channels  own     connections to the target, and the requests that the replay makes itself
timers                   calls that are due at a time
world                    the rooms of state, put together
routes                   what is done with the requests of one API and version, looked up once
"""
