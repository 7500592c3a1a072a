"""How many examples a property test gets: in the suite, a fixed number, always the same ones; in soak, fresh ones.

A suite that draws other examples every time finds bugs by chance, in a run that has nothing to do with them. So
`make test` uses the same examples every time, and `make soak` runs every property test (`-m hypothesis`) with
`SOAK_TIMES` as many, freshly drawn. How long an example takes says nothing on a machine that others use, too, so there
is no deadline.
"""

from typing import Final

from hypothesis import HealthCheck, settings
from hypothesis.internal.conjecture import providers

SUITE: Final = 20
"""The number of examples of a property test in the suite, unless it asks for another."""
SOAK_TIMES: Final = 50
_ALIKE: Final = settings(deadline=None, database=None, suppress_health_check=list(HealthCheck))
PROFILES: Final = {
    "suite": settings(_ALIKE, max_examples=SUITE, derandomize=True),
    "soak": settings(_ALIKE, max_examples=SUITE * SOAK_TIMES),
}


def examples(count: int) -> settings:
    """`@examples(60)` gives a property test another number of examples in the suite; soak multiplies it."""
    assert settings.default is not None
    return settings(max_examples=count * settings.default.max_examples // SUITE)


def keep_the_same() -> None:
    """Make the examples of a test depend on nothing but the test.

    Hypothesis also tries constants from the source of all modules that are loaded by then, and so draws other examples
    in each order of tests and in each worker. No setting turns this off. Also, reading all the source takes a tenth of
    the collection.
    """
    assert not len(providers._local_constants), "too late: constants have been collected"
    providers._get_local_constants = lambda: providers._local_constants
