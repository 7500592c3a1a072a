"""How many examples a property test gets: a fixed number, always the same examples, in the suite; fresh ones in soak.

A suite that draws other examples every time finds faults by chance, in a run that has nothing to do with them. So
`make test` takes the same examples every time, and `make soak` runs every property test (`-m hypothesis`) with
`SOAK_TIMES` as many, drawn anew. How long an example takes says nothing on a machine that others use, too, so there is
no deadline.
"""

from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SUITE: Final = 20
"""Examples of a property test in the suite that does not ask for another number."""
SOAK_TIMES: Final = 50
_ALIKE: Final = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
PROFILES: Final = {
    "suite": settings(_ALIKE, max_examples=SUITE, derandomize=True),
    "soak": settings(_ALIKE, max_examples=SUITE * SOAK_TIMES),
}


def examples(count: int) -> settings:
    """For `@examples(60)`: a property test that needs another number in the suite; soak multiplies it."""
    assert settings.default is not None
    return settings(max_examples=count * settings.default.max_examples // SUITE)


def keep_the_same() -> None:
    """Let nothing but a test itself decide on its examples.

    Hypothesis also tries constants that it finds in the source of whatever modules are loaded by then, and so draws
    other examples in each order of tests and in each worker. No setting turns this off. Reading all the source
    takes a tenth of the collection besides.
    """
    assert not len(providers._local_constants), "too late: constants have been collected"
    providers._get_local_constants = lambda: providers._local_constants
