"""The meaning of a capture: messages, requests with their responses, sessions, and the links between them."""
