"""The rules that check the protocol: `base` defines their base class, and `discovery` finds all of them."""
