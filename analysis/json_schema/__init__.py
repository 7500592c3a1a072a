"""Whether values fit a JSON Schema that a server sent, and whether it is a schema at all."""
