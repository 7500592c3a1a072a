"""The rules that check the protocol: `base` defines their base class, `discovery` finds all of them."""
