"""A capture played against another cluster, in its time, its state carried over, its answers compared: docs/replay.md.

commands  settings  choice  options      the command: what is asked for
player/                  sockets, TLS, time: the only room that knows trio; `run` is a replay from its first look on
prepare  rehearsal       what a replay must know of its target, what it refuses; what it would send (`--dry-run`)
engine/                  exchanges on their way, without sockets or a clock
requests/  versions/     recorded requests in the target's terms, and in its versions
producers/  groups/  sessions/  consumers/      the state that a cluster assigns
comparison/  results/    the verdict on an exchange; what people see
login/                   logins to the target
survey  stream           the capture: what it holds, and what happened in it, in the order of time
plan  outcome            the values that rooms hand to each other; those that a replay finds
cluster  names  mapping  partitions      the target as it is known; names and pairs of both sides
"""
