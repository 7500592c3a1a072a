"""The rules of the protocol: `base` defines the class of a rule, `discovery` finds them all."""
