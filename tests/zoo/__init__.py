"""Real servers and clients from PyPI and npm, driven directly and through the recorder: `python -m tests.zoo`."""
