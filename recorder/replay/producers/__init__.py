"""Producers: ids and epochs, sequences, transactions. `producers` finds the rule of an API."""
