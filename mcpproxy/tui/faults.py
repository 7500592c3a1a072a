"""Faults of the app: names one without text of the traffic, which its message and the values of variables may hold."""

import traceback

from textual.worker import WorkerFailed


def fault_text(error: BaseException) -> str:
    """Returns the type of an error and the line that raised it, such as `KeyError in table.py:120`."""
    while isinstance(error, WorkerFailed):
        error = error.error
    places = traceback.extract_tb(error.__traceback__)
    place = f" in {places[-1].filename.rpartition('/')[2]}:{places[-1].lineno}" if places else ""
    return type(error).__name__ + place
