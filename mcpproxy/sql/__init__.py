"""The SQL service of the commands and the screens: statements, the worker process, and its two clients."""
