"""Logins to the target: `sasl` without sockets, `logins` of the settings file."""
