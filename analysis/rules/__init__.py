"""The rules of the protocol: `base` says what a rule is, `registry` finds them all."""
