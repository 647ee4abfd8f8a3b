"""Plays an engine on real sockets: the only room of the replay that knows trio, TLS and the clock.

dial         one connection to the target: TCP, TLS, its versions, the login
sockets      plain connections, all watched by one task; frames: a stream cut into them
asking       the script of `prepare`, one question after the other
conductor    the engine's actions, answers, rows and time
"""
