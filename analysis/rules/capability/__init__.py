"""The group `capability`: what each side has declared that it can do, and who goes beyond it."""

MODULES = ("server_capabilities", "declarations", "client_capabilities", "notifications")
