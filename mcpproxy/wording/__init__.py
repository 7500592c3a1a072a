"""Wording: the texts about messages, calls, records, exchanges and rules, in one place for all commands and screens."""
