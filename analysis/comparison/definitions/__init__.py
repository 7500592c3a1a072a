"""The aspect of definitions: tools, resources and prompts, and their drift over time."""
