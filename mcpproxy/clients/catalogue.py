"""Every client that `install` knows, one row each, with the sources of its facts.

"Seen with" names the version of the client that was run to verify the row. Everything that mcpproxy knows about a
client is in its row. `docs/clients.md` is generated from these rows.
"""

from __future__ import annotations

from typing import Final

from mcpproxy.clients import variable_forms
from mcpproxy.clients.client import (
    SDK,
    STDIO,
    SYSTEMS,
    URLS,
    Client,
    ConfigFile,
    Environment,
    StdioForm,
    UneditableServers,
    everywhere,
)

SERVERS: Final = (("mcpServers",),)

_SHARED_PROJECT_FILE: Final = ConfigFile("project", "json", SERVERS, everywhere("./.mcp.json"), shared=True)

CLIENTS: Final = (
    Client(
        "claude-code",
        "Claude Code",
        (
            ConfigFile(
                "user", "json", (("mcpServers",), ("projects", "*", "mcpServers")), everywhere("~/.claude.json")
            ),
            _SHARED_PROJECT_FILE,
        ),
        source="code.claude.com/docs/en/mcp; seen with 2.1.328",
        after="start a new session",
        after_project="and approve the servers of the project again",
        overrides=(("CLAUDE_CONFIG_DIR", "~/.claude"), ("CLAUDE_CONFIG_DIR", "~")),
        variables=(variable_forms.SHELL,),
        misplaced=("~/.claude/mcp.json", "~/.claude/settings.json", "./.claude/settings.json", "./.claude/mcp.json"),
        elsewhere=(UneditableServers("plugin", "~/.claude/plugins/marketplaces/*/plugins/*/.mcp.json"),),
        speaks_as=("claude-code",),
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        (
            ConfigFile(
                "user",
                "json",
                SERVERS,
                {
                    "linux": ("~/.config/Claude/claude_desktop_config.json",),
                    "macos": ("~/Library/Application Support/Claude/claude_desktop_config.json",),
                    "windows": ("%APPDATA%/Claude/claude_desktop_config.json",),
                },
            ),
        ),
        source="modelcontextprotocol.io/docs/develop/connect-local-servers; neon-solutions/add-mcp#114 for MSIX",
        after="quit it and start it again",
        store_package=(
            "%LOCALAPPDATA%/Packages/Claude_*",
            "LocalCache/Roaming/Claude/claude_desktop_config.json",
        ),
        environment=SDK,
        elsewhere=(UneditableServers("extension", "~/Library/Application Support/Claude/Claude Extensions/*"),),
        speaks_as=("claude-ai",),
    ),
    Client(
        "cursor",
        "Cursor",
        (
            ConfigFile("user", "jsonc", SERVERS, everywhere("~/.cursor/mcp.json")),
            ConfigFile("project", "jsonc", SERVERS, everywhere("./.cursor/mcp.json")),
        ),
        source="cursor.com/docs/mcp; cursor.com/docs/cli/mcp",
        variables=(variable_forms.ENV, variable_forms.FOLDERS),
        own_variables=variable_forms.EDITOR,
        after="switch the server off and on in Settings > MCP (cursor-agent: `cursor-agent mcp enable NAME`)",
        speaks_as=("cursor",),
    ),
    *(
        Client(
            name,
            title,
            (
                ConfigFile(
                    "user",
                    "jsonc",
                    (("servers",),),
                    {
                        "linux": (f"~/.config/{folder}/User/mcp.json", f"~/.config/{folder}/User/profiles/*/mcp.json"),
                        "macos": (
                            f"~/Library/Application Support/{folder}/User/mcp.json",
                            f"~/Library/Application Support/{folder}/User/profiles/*/mcp.json",
                        ),
                        "windows": (
                            f"%APPDATA%/{folder}/User/mcp.json",
                            f"%APPDATA%/{folder}/User/profiles/*/mcp.json",
                        ),
                    },
                ),
                ConfigFile("project", "jsonc", (("servers",),), everywhere("./.vscode/mcp.json")),
                *((_SHARED_PROJECT_FILE,) if name == "vscode" else ()),
            ),
            variables=(variable_forms.ENV_OR_EMPTY, variable_forms.FOLDERS),
            own_variables=variable_forms.EDITOR,
            source="code.visualstudio.com/docs/agents/reference/mcp-configuration, /docs/reference/variables-reference",
            after="run `MCP: List Servers` and restart the server",
            speaks_as=("Visual Studio Code - Insiders",) if name == "vscode-insiders" else ("Visual Studio Code",),
        )
        for name, title, folder in (
            ("vscode", "VS Code", "Code"),
            ("vscode-insiders", "VS Code Insiders", "Code - Insiders"),
        )
    ),
    Client(
        "codex",
        "Codex",
        (
            ConfigFile(
                "user", "toml", (("mcp_servers",),), everywhere("~/.codex/config.toml", "~/.codex/*.config.toml")
            ),
            ConfigFile("project", "toml", (("mcp_servers",),), everywhere("./.codex/config.toml")),
        ),
        source="openai/codex, codex-rs/config/src/mcp_types.rs; seen with 0.169.0",
        after="start a new session",
        overrides=(("CODEX_HOME", "~/.codex"),),
        names_resource=True,
        environment=Environment(
            (
                "HOME",
                "LANG",
                "LC_ALL",
                "LOGNAME",
                "NODE_EXTRA_CA_CERTS",
                "PATH",
                "SHELL",
                "SSL_CERT_FILE",
                "TERM",
                "TMPDIR",
                "TZ",
                "USER",
            )
        ),
        misplaced=("~/.codex/mcp.json", "~/.codex/config.json"),
        speaks_as=("codex",),
    ),
    Client(
        "copilot",
        "Copilot CLI",
        (
            ConfigFile("user", "jsonc", SERVERS, everywhere("~/.copilot/mcp-config.json"), shared=True),
            _SHARED_PROJECT_FILE,
            ConfigFile("project", "jsonc", SERVERS, everywhere("./.github/mcp.json")),
        ),
        source="docs.github.com/copilot/how-tos/copilot-cli/add-mcp-servers; file read by 1.0.102",
        after="start a new session",
        overrides=(("COPILOT_HOME", "~/.copilot"),),
        environment=Environment(("PATH",)),
        speaks_as=("github-copilot", "copilot"),
    ),
    Client(
        "gemini",
        "Gemini CLI",
        (
            ConfigFile("user", "jsonc", SERVERS, everywhere("~/.gemini/settings.json")),
            ConfigFile("project", "jsonc", SERVERS, everywhere("./.gemini/settings.json")),
        ),
        source="google-gemini/gemini-cli, docs/tools/mcp-server.md; seen with 0.61.0",
        after="start a new session, or run `/mcp refresh`",
        urls=(("httpUrl",), ("url",)),
        elsewhere=(UneditableServers("extension", "~/.gemini/extensions/*"),),
        speaks_as=("gemini-cli", "mcp-test-client"),
        environment=Environment(
            drops=("TOKEN", "SECRET", "PASSWORD", "KEY", "AUTH", "CREDENTIAL", "PRIVATE", "CERT"),
        ),
        start_s=600.0,
        variables=(variable_forms.SHELL, variable_forms.BARE),
        misplaced=("~/.gemini/mcp.json", "./.gemini/mcp.json"),
    ),
    Client(
        "qwen",
        "Qwen Code",
        (
            ConfigFile("user", "jsonc", SERVERS, everywhere("~/.qwen/settings.json")),
            ConfigFile("project", "jsonc", SERVERS, everywhere("./.qwen/settings.json")),
            _SHARED_PROJECT_FILE,
        ),
        source="QwenLM/qwen-code, docs/users/features/mcp.md; seen with 0.24.4",
        overrides=(("QWEN_HOME", "~/.qwen"),),
        after="start a new session",
        after_project="first run `qwen mcp approve NAME`",
        urls=(("httpUrl",), ("url",)),
        elsewhere=(UneditableServers("extension", "~/.qwen/extensions/*"),),
        speaks_as=("qwen-code", "qwen-cli", "mcp-test-client"),
        start_s=600.0,
        variables=(variable_forms.SHELL, variable_forms.BARE),
    ),
    Client(
        "opencode",
        "OpenCode",
        (
            ConfigFile(
                "user",
                "jsonc",
                (("mcp",), ("mcp", "servers")),
                everywhere(
                    "~/.config/opencode/opencode.json",
                    "~/.config/opencode/opencode.jsonc",
                    "~/.config/opencode/config.json",
                ),
            ),
            ConfigFile(
                "project",
                "jsonc",
                (("mcp",), ("mcp", "servers")),
                everywhere(
                    "./opencode.json",
                    "./opencode.jsonc",
                    "./.opencode/opencode.json",
                    "./.opencode/opencode.jsonc",
                ),
            ),
        ),
        source="opencode.ai/docs/config, /v2/docs/mcp-servers; seen with 1.18.33",
        after="restart it",
        stdio=(StdioForm(("command",), None),),
        stdio_type="local",
        variables=(r"\{env:(?P<name>[^}]+)(?P<default>)\}",),
        overrides=(
            ("OPENCODE_CONFIG", "~/.config/opencode/opencode.json"),
            ("OPENCODE_CONFIG_DIR", "~/.config/opencode"),
            ("XDG_CONFIG_HOME", "~/.config"),
        ),
        speaks_as=("opencode",),
    ),
    Client(
        "zed",
        "Zed",
        (
            ConfigFile(
                "user",
                "jsonc",
                (("context_servers",),),
                {
                    "linux": ("~/.config/zed/settings.json",),
                    "macos": ("~/.config/zed/settings.json",),
                    "windows": ("%APPDATA%/Zed/settings.json",),
                },
            ),
            ConfigFile("project", "jsonc", (("context_servers",),), everywhere("./.zed/settings.json")),
        ),
        source="zed-industries/zed, crates/project/src/context_server_store.rs; zed.dev/docs/worktree-trust",
        after="",
        stdio=(*STDIO, StdioForm(("command", "path"), ("command", "args"))),
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        speaks_as=("Zed",),
    ),
    Client(
        "goose",
        "Goose",
        (
            ConfigFile(
                "user",
                "yaml",
                (("extensions",),),
                {
                    "linux": ("~/.config/goose/config.yaml",),
                    "macos": ("~/.config/goose/config.yaml",),
                    "windows": ("%APPDATA%/Block/goose/config/config.yaml",),
                },
            ),
        ),
        source="aaif-goose/goose, documentation/docs/guides/config-files.md",
        after="start a new session",
        stdio=(StdioForm(("cmd",), ("args",)),),
        urls=(("uri",),),
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        speaks_as=("goose",),
    ),
    Client(
        "droid",
        "Factory Droid",
        (
            ConfigFile("user", "jsonc", SERVERS, everywhere("~/.factory/mcp.json")),
            ConfigFile("project", "jsonc", SERVERS, everywhere("./.factory/mcp.json")),
        ),
        source="docs.factory.ai/cli/configuration/mcp; seen with 0.215.0",
        after="start a new session",
        speaks_as=("factory-cli",),
    ),
    Client(
        "auggie",
        "Auggie",
        (
            ConfigFile("user", "jsonc", SERVERS, everywhere("~/.augment/settings.json")),
            ConfigFile(
                "project", "jsonc", SERVERS, everywhere("./.augment/settings.json", "./.augment/settings.local.json")
            ),
        ),
        source="docs.augmentcode.com/cli/integrations; seen with 0.36.0",
        after="start a new session",
        speaks_as=("augment-mcp-client",),
        joins_words=True,
        environment=SDK,
    ),
    Client(
        "mcporter",
        "mcporter",
        (
            ConfigFile("user", "jsonc", SERVERS, everywhere("~/.mcporter/mcporter.json", "~/.mcporter/mcporter.jsonc")),
            ConfigFile("project", "jsonc", SERVERS, everywhere("./config/mcporter.json")),
        ),
        source="steipete/mcporter, docs/config.md; seen with 0.9.0 and 0.12.3",
        after="",
        stdio=(*STDIO, StdioForm(("command",), None), StdioForm(("executable",), ("args",))),
        splits_command=True,
        urls=(("baseUrl",), ("base_url",), ("url",), ("serverUrl",), ("server_url",)),
        proxies_loopback=False,
        variables=(variable_forms.SHELL, variable_forms.DIRECT),
        env_variables=(variable_forms.WHOLE, variable_forms.LEADING, variable_forms.DIRECT),
        starts_in_file_folder=True,
        speaks_as=("mcporter",),
    ),
    Client(
        "antigravity",
        "Antigravity",
        (
            ConfigFile(
                "user",
                "json",
                SERVERS,
                everywhere("~/.gemini/config/mcp_config.json", "~/.gemini/antigravity/mcp_config.json"),
            ),
            ConfigFile("project", "json", SERVERS, everywhere("./.agents/mcp_config.json")),
        ),
        source="ChromeDevTools/chrome-devtools-mcp, docs; snyk/agent-scan, agents/vscode/antigravity.py",
        after="refresh the servers in its MCP panel",
        urls=(("serverUrl",), ("url",)),
    ),
    Client(
        "windsurf",
        "Windsurf / Devin Desktop",
        (
            ConfigFile(
                "user",
                "json",
                SERVERS,
                {
                    system: (
                        "~/.codeium/windsurf/mcp_config.json",
                        "~/.codeium/mcp_config.json",
                        "%APPDATA%/devin/mcp_config.json" if system == "windows" else "~/.config/devin/mcp_config.json",
                    )
                    for system in SYSTEMS
                },
            ),
            ConfigFile(
                "project", "json", SERVERS, everywhere("./.devin/mcp_config.json", "./.devin/mcp_config.local.json")
            ),
        ),
        source="docs.windsurf.com/windsurf/cascade/mcp; docs.devin.ai/cli/extensibility/mcp/configuration",
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        variables=(variable_forms.ENV,),
        after="refresh the servers in its MCP panel",
        urls=(("serverUrl",), ("url",)),
        speaks_as=("windsurf",),
    ),
    Client(
        "cline",
        "Cline",
        (
            ConfigFile(
                "user", "json", SERVERS, everywhere("~/.cline/data/settings/cline_mcp_settings.json"), shared=True
            ),
        ),
        source="cline/cline, sdk/packages/shared/src/storage/paths.ts; file read by 3.0.65",
        after="",
        stdio=(*STDIO, StdioForm(("transport", "command"), ("transport", "args"))),
        urls=(*URLS, ("transport", "url")),
        overrides=(
            ("CLINE_MCP_SETTINGS_PATH", "~/.cline/data/settings/cline_mcp_settings.json"),
            ("CLINE_DATA_DIR", "~/.cline/data"),
        ),
        speaks_as=("@cline/", "Cline"),
        locks_with_folder=True,
    ),
    Client(
        "continue",
        "Continue",
        (
            ConfigFile("user", "yaml", SERVERS, everywhere("~/.continue/config.yaml")),
            ConfigFile("project", "yaml", SERVERS, everywhere("./.continue/mcpServers/*.yaml")),
            ConfigFile("project", "json", SERVERS, everywhere("./.continue/mcpServers/*.json")),
        ),
        source="docs.continue.dev/customize/deep-dives/mcp; seen with CLI 1.5.47",
        after="reload its configuration, or start a new session",
        speaks_as=("continue",),
    ),
    Client(
        "kiro",
        "Kiro",
        (
            ConfigFile(
                "user",
                "json",
                (*SERVERS, ("powers", "mcpServers")),
                everywhere("~/.kiro/settings/mcp.json", "~/.kiro/agents/*.json"),
            ),
            ConfigFile("project", "json", SERVERS, everywhere("./.kiro/settings/mcp.json", "./.kiro/agents/*.json")),
        ),
        source="kiro.dev/docs/mcp/configuration, /docs/cli/mcp/configuration",
        after="",
        speaks_as=("kiro",),
    ),
    Client(
        "amazon-q",
        "Amazon Q CLI",
        (
            ConfigFile(
                "user",
                "json",
                SERVERS,
                everywhere("~/.aws/amazonq/cli-agents/*.json", "~/.aws/amazonq/mcp.json"),
            ),
            ConfigFile("project", "json", SERVERS, everywhere("./.amazonq/cli-agents/*.json", "./.amazonq/mcp.json")),
        ),
        source="aws/amazon-q-developer-cli, docs/agent-file-locations.md",
        after="start a new chat",
        speaks_as=("Q DEV CLI",),
    ),
    Client(
        "junie",
        "Junie",
        (
            ConfigFile("user", "json", SERVERS, everywhere("~/.junie/mcp/mcp.json")),
            ConfigFile("project", "json", SERVERS, everywhere("./.junie/mcp/mcp.json")),
        ),
        source="junie.jetbrains.com/docs/junie-cli-mcp-configuration.html",
        after="switch the server off and on in Settings > Tools > Junie > MCP Settings",
    ),
    Client(
        "lm-studio",
        "LM Studio",
        (ConfigFile("user", "json", SERVERS, everywhere("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json")),),
        source="lmstudio.ai/docs/app/mcp; lmstudio-ai/lmstudio-bug-tracker#1371",
        after="",
    ),
    Client(
        "crush",
        "Crush",
        (
            ConfigFile(
                "user",
                "json",
                (("mcp",),),
                {
                    "linux": ("~/.config/crush/crush.json",),
                    "macos": ("~/.config/crush/crush.json",),
                    "windows": ("%LOCALAPPDATA%/crush/crush.json",),
                },
            ),
            ConfigFile("project", "json", (("mcp",),), everywhere("./.crush.json", "./crush.json")),
        ),
        source="charmbracelet/crush, README.md",
        after="restart it",
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        speaks_as=("crush",),
    ),
    Client(
        "warp",
        "Warp",
        (
            ConfigFile("user", "json", SERVERS, everywhere("~/.warp/.mcp.json")),
            ConfigFile("project", "json", SERVERS, everywhere("./.warp/.mcp.json")),
        ),
        source="docs.warp.dev/agents/capabilities/mcp",
        after="switch the server off and on in Settings > AI > MCP servers",
    ),
    Client(
        "amp",
        "Amp",
        (
            ConfigFile("user", "jsonc", (("amp.mcpServers",),), everywhere("~/.config/amp/settings.json")),
            ConfigFile("project", "jsonc", (("amp.mcpServers",),), everywhere("./.amp/settings.json")),
        ),
        source="ampcode.com/docs/customize/mcp; file read by 0.0.1790142911",
        after="start a new session",
        after_project="and run `amp mcp approve NAME`",
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        speaks_as=("amp",),
    ),
)
"""All clients, in the order in which commands list them."""


def by_id(name: str) -> Client | None:
    """Returns the client with this id, or None."""
    return next((client for client in CLIENTS if client.id == name), None)
