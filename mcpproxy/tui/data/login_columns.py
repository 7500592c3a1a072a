"""Login columns: what is known about the logins of a capture and their legs, in arrays; see `columns.py`."""

from array import array
from typing import Final, get_args

from analysis.conversation.login import Outcome

LOGIN_OUTCOMES: Final[tuple[Outcome, ...]] = get_args(Outcome)
IS_OVER: Final = 1
"""The bit of an outcome code that says that no leg can follow."""
IS_SETTLED: Final = 2
"""The bit that says that the login is not under way: it has succeeded or failed, although more legs may follow."""
OUTCOME_CODES: Final = 4
"""How many codes each outcome has."""
MAX_OUTCOME_CODE: Final = OUTCOME_CODES * len(LOGIN_OUTCOMES) - 1


class LoginColumns:
    """The logins of a capture, by their numbers from 1; each column begins with the login 1."""

    def __init__(self) -> None:
        self.head = array("I")
        """The row of a login: that of the first record of its first leg."""
        self.failed = array("I")
        """Row of the leg with which it failed, or NONE."""
        self.accepted = array("I")
        """Row of the end of the first exchange that the endpoint accepted after its legs, or NONE."""
        self.guessed = array("I")
        """How many of its legs were assigned by a guess."""
        self.outcome = array("B")
        """What became of it so far: its index in `LOGIN_OUTCOMES` times `OUTCOME_CODES`, and bits."""
        self.leg_start = array("I")
        """By leg, in the order in which the legs ended: the row of its request, or NONE if that was not recorded."""
        self.leg_end = array("I")
        """The row of its end; ascending."""
        self.leg_response = array("I")
        """The row of its response, or NONE if that is not a record of its own."""
        self.leg_message = array("I")
        """The row of the message that its request contains, as that of a challenge does, or NONE."""
        self.leg_login = array("I")
        """The number of its login, less 1."""

    def __len__(self) -> int:
        # Written last, so that every counted login is complete.
        return len(self.outcome)
