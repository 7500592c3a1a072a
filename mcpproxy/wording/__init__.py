"""Wording: what a message, a call, a record, an exchange or a rule says, worded once for every command and screen."""
