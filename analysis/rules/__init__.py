"""The rules of the protocol: `base` defines the class of a rule, `registry` finds them all."""
