"""A real server of skills on the official SDK: what it does right draws nothing, and what it does wrong is found."""

import sys
from pathlib import Path
from typing import Any, Literal

import anyio
import mcp_types as types
import pytest
from mcp import Client
from mcp.shared.exceptions import MCPError

from tests.analysis.traces import alarms, findings_of
from tests.mcpproxy.test_sdk_integration import recorded

PEER = Path(__file__).parents[2] / "peers/skills_server.py"
REFUNDS = "---\nname: refunds\ndescription: Process customer refunds – politely\nlicense: MIT\n---\n\n# Refunds\n"
NESTED = "---\nname: letters\ndescription: >\n  Write letters\n---\n"
URI = "skill://billing/refunds/SKILL.md"


class AnyRequest(types.Request[dict[str, Any], str]):
    """A request that the SDK does not define."""

    method: str
    params: dict[str, Any]


async def ask(client: Client, method: str, **params: str) -> dict[str, Any]:
    request = AnyRequest(method=method, params=params)
    result = await client.session.send_request(request, types.Result)
    return result.model_dump()


def served(folder: Path) -> Path:
    skill = folder / "skills" / "billing" / "refunds"
    (skill / "letters").mkdir(parents=True)
    (skill / "SKILL.md").write_text(REFUNDS)
    (skill / "email.md").write_bytes(b"Dear customer,\r\n\r\n")
    (skill / "letters" / "SKILL.md").write_text(NESTED)
    return folder / "skills"


@pytest.mark.costly("the SDK's two ends, and everything that skills have")
def test_a_server_that_follows_the_specification_draws_nothing(tmp_path: Path) -> None:
    folder, capture = served(tmp_path), tmp_path / "skills.mcpcap"

    async def talk() -> None:
        async with recorded([sys.executable, str(PEER), str(folder)], capture, "auto") as client:
            await ask(client, "skills/list")
            for name in ("SKILL.md", "email.md", "letters/SKILL.md"):
                await client.read_resource(f"skill://billing/refunds/{name}")
            await ask(client, "resources/directory/read", uri="skill://billing/refunds")
            await client.list_resources()
            await ask(client, "skills/get", uri=URI)
            for method, uri in (("skills/get", "skill://gone/SKILL.md"), ("resources/directory/read", URI)):
                with pytest.raises(MCPError):
                    await ask(client, method, uri=uri)

    anyio.run(talk)
    assert alarms(capture) == []
    assert not [finding for finding in findings_of(capture) if finding.rule.startswith("ext-skills/")]


@pytest.mark.parametrize("state", ["current", "stale"])
def test_content_that_does_not_fit_is_found(state: Literal["current", "stale"], tmp_path: Path) -> None:
    folder, capture = served(tmp_path), tmp_path / "skills.mcpcap"
    options = ["--stale"] if state == "stale" else []

    async def talk() -> None:
        async with recorded([sys.executable, str(PEER), str(folder), *options], capture, "auto") as client:
            await ask(client, "skills/list")
            (folder / "billing" / "refunds" / "SKILL.md").write_text(REFUNDS + "More.\n")
            await client.read_resource(URI)
            await ask(client, "skills/get", uri=URI)

    anyio.run(talk)
    texts = [(rule, text) for rule, text, _ in alarms(capture)]
    size = len(REFUNDS.encode())
    mismatch = ("ext-skills/digest-mismatch", f"the content has {size + 6} bytes, not {size} as in the entry")
    again = "the digest is listed again, although the content that was read does not have it"
    assert texts == ([mismatch, ("ext-skills/digest-mismatch", again)] if state == "stale" else [mismatch])
