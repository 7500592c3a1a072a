"""Programs that read exports, from the environment that `make setup` makes: they pin their dependencies."""

from pathlib import Path

from tests.fetch import VENV


def program(name: str) -> Path:
    """The path of a program; fails the test if the set-up has not fetched it."""
    path = VENV / "readers/bin" / name
    assert path.exists(), f"{name} is not here: `make setup` fetches it"
    return path
