"""The group `capability`: what each side declares that it supports, and messages that go beyond that."""

MODULES = ("server_capabilities", "declarations", "client_capabilities", "notifications")
