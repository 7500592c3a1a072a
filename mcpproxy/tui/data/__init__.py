"""The data behind the screens: captures as they are read, their findings, and figures about them."""
