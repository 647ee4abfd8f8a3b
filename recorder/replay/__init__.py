"""Plays a capture against another cluster in recorded time, and compares the answers (docs/replay.md).

commands  settings  choice  options      the command line: what is asked for
player/                  sockets, TLS, time: the only room that knows trio; `run` is a replay from start to end
prepare  rehearsal       questions to the target before the replay, and refusals; `--dry-run`
engine/                  exchanges in play, without sockets or a clock
requests/  versions/     recorded requests in the target's terms, and in its versions
producers/  groups/  sessions/  consumers/      the state that a cluster assigns
comparison/  results/    the verdict on an exchange; reports for people and programs
login/                   logins to the target
survey  stream           the capture: its contents, and its happenings in the order of time
beginnings               what is from before the recording, as far as the capture proves it
recorded_clusters        where it was recorded: ids of clusters, addresses of brokers and listeners
translator               the base of the rooms of state
plan  outcome            the values that rooms hand to each other; the values of a report
cluster  names  mapping  partitions      the target as known so far; names and pairs of both sides
"""
