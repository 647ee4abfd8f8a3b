"""Plays an engine on real sockets: the only room of the replay that knows trio, TLS and the clock.

dial         one connection to the target: TCP, TLS, its versions, the login
sockets      plain connections, all watched by one task; frames: cuts a stream into frames
asking       asks the target the questions of `prepare`
conductor    connects the engine with sockets, happenings and time
"""
