"""What the screens show: captures as they are read, what is found in them, and figures about them."""
