"""Made-up homes in which clients are routed and restored."""

import sysconfig
from collections.abc import Callable
from pathlib import Path

from mcpproxy.clients.catalogue import client_by_id
from mcpproxy.clients.changes import Change
from mcpproxy.clients.client import Client
from mcpproxy.clients.installer import OAuthRoute, apply_plan, file_plans, is_routed, route_decision, unroute_decision
from mcpproxy.clients.machine import Machine, System
from mcpproxy.clients.probe import Probe
from mcpproxy.clients.servers import Server, read_inventory
from mcpproxy.clients.state import InstallState
from mcpproxy.clients.wrapper import Wrapper
from tests.mcpproxy.clients import homes

PROGRAM = str(Path(sysconfig.get_path("scripts"), "mcpproxy"))
WRAPPER = Wrapper((PROGRAM,))


class ClientHome:
    """One home, with methods that route and restore its clients."""

    def __init__(self, home: Path, system: System = "linux") -> None:
        self.machine: Machine = homes.machine(home, system)
        self.state = InstallState(home / "state")
        self.probes = {homes.URL: Probe("open")}
        self.ways: list[OAuthRoute] = []
        self.wrapper = WRAPPER

    def servers(self, client: Client) -> list[Server]:
        return read_inventory(client, self.machine).servers

    def _all(
        self, client: Client, decide: Callable[[Server], Change], wanted: Callable[[Server], bool]
    ) -> list[Change]:
        planned = file_plans([read_inventory(client, self.machine)], decide, wanted)
        return [change for plan in planned for change in apply_plan(plan, decide, self.state)]

    def install(self, client: Client, wanted: Callable[[Server], bool] = lambda _: True) -> list[Change]:
        return self._all(client, route_decision(self.wrapper, self.state, self.probes, self.ways), wanted)

    def uninstall(self, client: Client, wanted: Callable[[Server], bool] = lambda _: True) -> list[Change]:
        chosen = lambda server: is_routed(server, self.state) and wanted(server)  # noqa: E731
        return self._all(client, unroute_decision(self.state, is_named=False), chosen)


def client_of(name: str) -> Client:
    client = client_by_id(name)
    assert client is not None
    return client
