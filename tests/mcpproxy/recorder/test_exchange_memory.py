"""What a connection that waits costs `serve`: a server can have thousands of idle streams."""

from mcpproxy.recorder.body_recorder import BodyRecorder
from mcpproxy.recorder.exchange import ExchangeRecorder
from mcpproxy.recorder.http import ConnectionRecorder


def test_what_each_stream_has_takes_no_dictionary() -> None:
    # A dictionary of more than 30 attributes is not shared by instances, and takes 1.5 kB for each of them.
    for kind in (BodyRecorder, ConnectionRecorder, ExchangeRecorder):
        assert not hasattr(object.__new__(kind), "__dict__"), kind
