"""The zoo's comparison, with the server that comes with the program."""

import sys
from pathlib import Path

import pytest

from tests.harness import Place
from tests.zoo.mask import differences
from tests.zoo.talk import Stdio, converse


@pytest.mark.parametrize("scenario", ["handshake", "discover"])
def test_a_wrapped_server_answers_as_a_direct_one(scenario: str, place: Place, tmp_path: Path) -> None:
    runs = []
    for capture in (None, tmp_path / "zoo.mcpcap"):
        session = place.start(
            [sys.executable, "-P", "-m", "mcpproxy.demo.server"], direct=capture is None, capture=capture
        )
        stdio = Stdio(session)
        converse(stdio, "handshake" if scenario == "handshake" else "discover", None)
        runs.append({**stdio.heard, "stderr": session.errors()})
    direct, wrapped = runs
    assert direct["exit"] == b"0"
    assert differences([direct, direct], wrapped) == {}
