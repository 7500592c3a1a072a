"""A server of Agent Skills on the official SDK's lower layer, which has no support for them of its own.

    skills_server.py FOLDER [--stale]

It serves every directory below FOLDER that has a `SKILL.md`, and reads the files anew for each request. With `--stale`,
it sends the entries of its start, as a server does that computes digests once.
"""

import hashlib
import sys
from pathlib import Path
from typing import Any

import anyio
import mcp_types as types
import yaml
from mcp.server.lowlevel import Server
from mcp.server.stdio import stdio_server
from mcp.shared.exceptions import MCPError

FOLDER = Path(sys.argv[1])
SCHEME = "skill://"
HINTS = {"resultType": "complete", "ttlMs": 60_000, "cacheScope": "private"}


class Named(types.RequestParams):
    uri: str


def path_of(uri: str) -> Path:
    path = FOLDER / uri.removeprefix(SCHEME)
    if not uri.startswith(SCHEME) or ".." in path.parts or not path.exists():
        raise MCPError(types.INVALID_PARAMS, f"nothing is served at {uri}")
    return path


def uri_of(path: Path) -> str:
    return SCHEME + path.relative_to(FOLDER).as_posix()


def entry_of(path: Path) -> dict[str, Any]:
    files = [file for file in sorted(path.parent.rglob("*")) if file.is_file()]
    return {
        "uri": uri_of(path),
        "frontmatter": yaml.safe_load(path.read_text().split("---\n")[1]),
        "resources": [
            {
                "uri": uri_of(file),
                "digest": f"sha256:{hashlib.sha256(file.read_bytes()).hexdigest()}",
                "size": file.stat().st_size,
            }
            for file in files
        ],
    }


def entries_now() -> dict[str, dict[str, Any]]:
    return {uri_of(path): entry_of(path) for path in sorted(FOLDER.rglob("SKILL.md"))}


START = entries_now() if "--stale" in sys.argv else None


async def list_skills(ctx: Any, params: types.PaginatedRequestParams | None) -> dict[str, Any]:
    return {**HINTS, "skills": list((START or entries_now()).values())}


async def get_skill(ctx: Any, params: Named) -> dict[str, Any]:
    entry = (START or entries_now()).get(params.uri)
    if entry is None:
        raise MCPError(types.INVALID_PARAMS, f"no skill is served at {params.uri}")
    return {**HINTS, "skill": entry}


async def read_directory(ctx: Any, params: Named) -> dict[str, Any]:
    path = path_of(params.uri)
    if not path.is_dir():
        raise MCPError(types.INVALID_PARAMS, f"{params.uri} is not a directory")
    children = [
        {"uri": uri_of(child), "name": child.name, **({"mimeType": "inode/directory"} if child.is_dir() else {})}
        for child in sorted(path.iterdir())
    ]
    return {"resultType": "complete", "resources": children}


async def list_resources(ctx: Any, params: types.PaginatedRequestParams | None) -> types.ListResourcesResult:
    found = [types.Resource(uri=uri, name=entry["frontmatter"]["name"]) for uri, entry in entries_now().items()]
    return types.ListResourcesResult(resources=found)


async def read_resource(ctx: Any, params: types.ReadResourceRequestParams) -> types.ReadResourceResult:
    text = path_of(params.uri).read_bytes().decode()
    return types.ReadResourceResult(contents=[types.TextResourceContents(uri=params.uri, text=text)])


server: Server[Any] = Server(
    "skills", version="1.0.0", on_list_resources=list_resources, on_read_resource=read_resource
)
server.extensions = {"io.modelcontextprotocol/skills": {"directoryRead": True}}
server.add_request_handler("skills/list", types.PaginatedRequestParams, list_skills)
server.add_request_handler("skills/get", Named, get_skill)
server.add_request_handler("resources/directory/read", Named, read_directory)


async def main() -> None:
    async with stdio_server() as (reading, writing):
        await server.run(reading, writing, server.create_initialization_options())


if __name__ == "__main__":
    anyio.run(main)
