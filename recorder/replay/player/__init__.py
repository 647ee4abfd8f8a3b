"""Plays an engine on real sockets: the only room of the replay that knows trio, TLS and the clock.

run          a replay from the survey to the exit code
target       the target as the settings file describes it
dial         one connection to the target: TCP, TLS, its versions, the login; `renewal` logs in again
guard        keeps connections from leading to where the capture was recorded
sockets      plain connections, all watched by one task; `frames` cuts a stream into frames
asking       asks the target the questions of `prepare`
conductor    connects the engine with sockets, happenings and time; `reread` reads frames again
recording    keeps what is sent and received (`--record`)
"""
