"""Programs that read exports, from the environment that `make setup` makes: they pin what they need themselves."""

from pathlib import Path

from tests.fetch import VENV


def program(name: str) -> Path:
    """A program; the test fails where the set-up has not fetched it."""
    path = VENV / "readers/bin" / name
    assert path.exists(), f"{name} is not here: `make setup` fetches it"
    return path
