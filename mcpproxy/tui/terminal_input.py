"""The input of the terminal: keys and mouse reports, even if some bytes are neither.

Textual's reader ends, and the app with it, at a byte that is not UTF-8 (a paste of binary data, a key of a Latin-1
terminal, an old mouse report) and at a sequence with an impossible number.
"""

import os
import select
from codecs import getincrementaldecoder
from collections.abc import Iterable
from typing import Final

from textual import events
from textual._xterm_parser import XTermParser
from textual.drivers.linux_driver import LinuxDriver
from textual.keys import Keys

MAX_READ_BYTES: Final = 4096
POLL_S: Final = 0.1
"""How often the reader looks whether the app has ended, and whether an `Esc` was the key and not the start of one."""


class InputParser(XTermParser):
    """Textual's parser, which ignores a sequence with an impossible number."""

    def _sequence_to_key_events(self, sequence: str, alt: bool = False) -> Iterable[events.Key]:
        # A list, so that a sequence gives all of its keys or none.
        try:
            return list(super()._sequence_to_key_events(sequence, alt))
        except (ValueError, OverflowError):
            return [events.Key(Keys.Ignore, sequence)]


class TerminalDriver(LinuxDriver):
    """Textual's driver with a reader that replaces bytes that are not UTF-8: none of them is the name of a key.

    They are replaced, not left out: three of them are the position in an old mouse report, which would otherwise take
    the next three keys for it.
    """

    # A version of Textual that calls its reader differently would not call this one, and work as without it.
    def run_input_thread(self) -> None:
        """Read the terminal until the app ends or is suspended, or the terminal is gone."""
        try:
            self._read_events()
        except OSError:
            return  # the terminal is gone, which `shutdown` notices
        except Exception as error:  # noqa: BLE001 - Textual would print a traceback, and exit with 0
            self._app.call_later(self._app._handle_exception, error)

    def _read_events(self) -> None:
        decoder = getincrementaldecoder("utf-8")("replace")
        parser = InputParser(self._debug)
        while not self.exit_event.is_set():
            if select.select([self.fileno], [], [], POLL_S)[0]:
                data = os.read(self.fileno, MAX_READ_BYTES)
                text = decoder.decode(data)
                if text:
                    for event in parser.feed(text):
                        self.process_message(event)
                elif not data:
                    self.exit_event.wait(POLL_S)
            for event in parser.tick():
                self.process_message(event)
