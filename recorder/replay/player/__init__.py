"""Plays an engine on real sockets: the only room of the replay that knows trio, TLS and the clock.

dial         one connection to the target: TCP, TLS, its versions, the login
asking       the script of `prepare`, one question after the other
conductor    the engine's actions, answers, rows and time
"""
