"""Producers: ids and epochs, sequences, transactions. `translator` finds the rule of an API."""
