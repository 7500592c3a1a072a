"""The exceptions for captures.

    CaptureError one line for a person: what was tried, on what, what to do next ├── CannotCreate an output cannot be
    created or written: nothing was started, nothing is left ├── NotACapture there is no such file, or it contains no
    capture header │ └── NothingRecorded it is empty, or its first record is incomplete └── NewerFormat written by a
    later version: update

Damage inside a capture raises no exception: readers yield it between the records.
"""


class CaptureError(Exception):
    """A capture cannot be used as requested; the text says what was tried, on what, and what to do next."""


class CannotCreate(CaptureError):
    """A capture or another output cannot be created: a recorder starts nothing, and a command leaves nothing behind."""


class NotACapture(CaptureError):
    """The path does not lead to a readable capture."""


class NothingRecorded(NotACapture):
    """The first record is incomplete: the recorder was killed or has only just begun, or the file was cut.

    `size` is the number of bytes in the file.
    """

    def __init__(self, text: str, size: int) -> None:
        super().__init__(text)
        self.size = size


class NewerFormat(CaptureError):
    """The capture was written in a later version of the format."""
