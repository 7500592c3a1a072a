"""The film of the documentation: a real terminal session, recorded as an asciicast and drawn as a moving picture."""
