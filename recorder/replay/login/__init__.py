"""Logins to the target: `sasl`, without sockets; `logins`, from the settings file."""
