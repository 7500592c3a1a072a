"""Every client that `install` knows, one row each, with the sources of its facts.

"Seen with" names the version of the client that was run to verify the row. Everything that mcpproxy knows about a
client is in its row. `docs/clients.md` is generated from these rows.
"""

from __future__ import annotations

from typing import Final

from mcpproxy.clients import variable_forms
from mcpproxy.clients.client import (
    SDK_ENVIRONMENT,
    STDIO_FORMS,
    SYSTEMS,
    URL_MEMBERS,
    Client,
    ConfigFile,
    Environment,
    StdioForm,
    UneditableServers,
    same_places,
)

MCP_SERVERS_PATHS: Final = (("mcpServers",),)

_SHARED_PROJECT_FILE: Final = ConfigFile(
    "project", "json", MCP_SERVERS_PATHS, same_places("./.mcp.json"), is_shared=True
)

CLIENTS: Final = (
    Client(
        "claude-code",
        "Claude Code",
        (
            ConfigFile(
                "user", "json", (("mcpServers",), ("projects", "*", "mcpServers")), same_places("~/.claude.json")
            ),
            _SHARED_PROJECT_FILE,
        ),
        source="code.claude.com/docs/en/mcp; seen with 2.1.328",
        step_after_edit="start a new session",
        step_after_project_edit="and approve the servers of the project again",
        overrides=(("CLAUDE_CONFIG_DIR", "~/.claude"), ("CLAUDE_CONFIG_DIR", "~")),
        variables=(variable_forms.SHELL_FORM,),
        misplaced_files=(
            "~/.claude/mcp.json",
            "~/.claude/settings.json",
            "./.claude/settings.json",
            "./.claude/mcp.json",
        ),
        uneditable_servers=(UneditableServers("plugin", "~/.claude/plugins/marketplaces/*/plugins/*/.mcp.json"),),
        client_info_prefixes=("claude-code",),
    ),
    Client(
        "claude-desktop",
        "Claude Desktop",
        (
            ConfigFile(
                "user",
                "json",
                MCP_SERVERS_PATHS,
                {
                    "linux": ("~/.config/Claude/claude_desktop_config.json",),
                    "macos": ("~/Library/Application Support/Claude/claude_desktop_config.json",),
                    "windows": ("%APPDATA%/Claude/claude_desktop_config.json",),
                },
            ),
        ),
        source="modelcontextprotocol.io/docs/develop/connect-local-servers; neon-solutions/add-mcp#114 for MSIX",
        step_after_edit="quit it and start it again",
        store_package=(
            "%LOCALAPPDATA%/Packages/Claude_*",
            "LocalCache/Roaming/Claude/claude_desktop_config.json",
        ),
        environment=SDK_ENVIRONMENT,
        uneditable_servers=(
            UneditableServers("extension", "~/Library/Application Support/Claude/Claude Extensions/*"),
        ),
        client_info_prefixes=("claude-ai",),
    ),
    Client(
        "cursor",
        "Cursor",
        (
            ConfigFile("user", "jsonc", MCP_SERVERS_PATHS, same_places("~/.cursor/mcp.json")),
            ConfigFile("project", "jsonc", MCP_SERVERS_PATHS, same_places("./.cursor/mcp.json")),
        ),
        source="cursor.com/docs/mcp; cursor.com/docs/cli/mcp",
        variables=(variable_forms.ENV_FORM, variable_forms.FOLDER_FORM),
        own_variables=variable_forms.EDITOR_FORMS,
        step_after_edit="switch the server off and on in Settings > MCP (cursor-agent: `cursor-agent mcp enable NAME`)",
        client_info_prefixes=("cursor",),
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
                ConfigFile("project", "jsonc", (("servers",),), same_places("./.vscode/mcp.json")),
                *((_SHARED_PROJECT_FILE,) if name == "vscode" else ()),
            ),
            variables=(variable_forms.ENV_OR_EMPTY_FORM, variable_forms.FOLDER_FORM),
            own_variables=variable_forms.EDITOR_FORMS,
            source="code.visualstudio.com/docs/agents/reference/mcp-configuration, /docs/reference/variables-reference",
            step_after_edit="run `MCP: List Servers` and restart the server",
            client_info_prefixes=("Visual Studio Code - Insiders",)
            if name == "vscode-insiders"
            else ("Visual Studio Code",),
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
                "user", "toml", (("mcp_servers",),), same_places("~/.codex/config.toml", "~/.codex/*.config.toml")
            ),
            ConfigFile("project", "toml", (("mcp_servers",),), same_places("./.codex/config.toml")),
        ),
        source="openai/codex, codex-rs/config/src/mcp_types.rs; seen with 0.169.0",
        step_after_edit="start a new session",
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
        misplaced_files=("~/.codex/mcp.json", "~/.codex/config.json"),
        client_info_prefixes=("codex",),
    ),
    Client(
        "copilot",
        "Copilot CLI",
        (
            ConfigFile("user", "jsonc", MCP_SERVERS_PATHS, same_places("~/.copilot/mcp-config.json"), is_shared=True),
            _SHARED_PROJECT_FILE,
            ConfigFile("project", "jsonc", MCP_SERVERS_PATHS, same_places("./.github/mcp.json")),
        ),
        source="docs.github.com/copilot/how-tos/copilot-cli/add-mcp-servers; file read by 1.0.102",
        step_after_edit="start a new session",
        overrides=(("COPILOT_HOME", "~/.copilot"),),
        environment=Environment(("PATH",)),
        client_info_prefixes=("github-copilot", "copilot"),
    ),
    Client(
        "gemini",
        "Gemini CLI",
        (
            ConfigFile("user", "jsonc", MCP_SERVERS_PATHS, same_places("~/.gemini/settings.json")),
            ConfigFile("project", "jsonc", MCP_SERVERS_PATHS, same_places("./.gemini/settings.json")),
        ),
        source="google-gemini/gemini-cli, docs/tools/mcp-server.md; seen with 0.61.0",
        step_after_edit="start a new session, or run `/mcp refresh`",
        url_members=(("httpUrl",), ("url",)),
        uneditable_servers=(UneditableServers("extension", "~/.gemini/extensions/*"),),
        client_info_prefixes=("gemini-cli", "mcp-test-client"),
        environment=Environment(
            withheld_parts=("TOKEN", "SECRET", "PASSWORD", "KEY", "AUTH", "CREDENTIAL", "PRIVATE", "CERT"),
        ),
        start_timeout_s=600.0,
        variables=(variable_forms.SHELL_FORM, variable_forms.BARE_FORM),
        misplaced_files=("~/.gemini/mcp.json", "./.gemini/mcp.json"),
    ),
    Client(
        "qwen",
        "Qwen Code",
        (
            ConfigFile("user", "jsonc", MCP_SERVERS_PATHS, same_places("~/.qwen/settings.json")),
            ConfigFile("project", "jsonc", MCP_SERVERS_PATHS, same_places("./.qwen/settings.json")),
            _SHARED_PROJECT_FILE,
        ),
        source="QwenLM/qwen-code, docs/users/features/mcp.md; seen with 0.24.4",
        overrides=(("QWEN_HOME", "~/.qwen"),),
        step_after_edit="start a new session",
        step_after_project_edit="first run `qwen mcp approve NAME`",
        url_members=(("httpUrl",), ("url",)),
        uneditable_servers=(UneditableServers("extension", "~/.qwen/extensions/*"),),
        client_info_prefixes=("qwen-code", "qwen-cli", "mcp-test-client"),
        start_timeout_s=600.0,
        variables=(variable_forms.SHELL_FORM, variable_forms.BARE_FORM),
    ),
    Client(
        "opencode",
        "OpenCode",
        (
            ConfigFile(
                "user",
                "jsonc",
                (("mcp",), ("mcp", "servers")),
                same_places(
                    "~/.config/opencode/opencode.json",
                    "~/.config/opencode/opencode.jsonc",
                    "~/.config/opencode/config.json",
                ),
            ),
            ConfigFile(
                "project",
                "jsonc",
                (("mcp",), ("mcp", "servers")),
                same_places(
                    "./opencode.json",
                    "./opencode.jsonc",
                    "./.opencode/opencode.json",
                    "./.opencode/opencode.jsonc",
                ),
            ),
        ),
        source="opencode.ai/docs/config, /v2/docs/mcp-servers; seen with 1.18.33",
        step_after_edit="restart it",
        stdio_forms=(StdioForm(("command",), None),),
        stdio_type="local",
        variables=(r"\{env:(?P<name>[^}]+)(?P<default>)\}",),
        overrides=(
            ("OPENCODE_CONFIG", "~/.config/opencode/opencode.json"),
            ("OPENCODE_CONFIG_DIR", "~/.config/opencode"),
            ("XDG_CONFIG_HOME", "~/.config"),
        ),
        client_info_prefixes=("opencode",),
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
            ConfigFile("project", "jsonc", (("context_servers",),), same_places("./.zed/settings.json")),
        ),
        source="zed-industries/zed, crates/project/src/context_server_store.rs; zed.dev/docs/worktree-trust",
        step_after_edit="",
        stdio_forms=(*STDIO_FORMS, StdioForm(("command", "path"), ("command", "args"))),
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        client_info_prefixes=("Zed",),
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
        step_after_edit="start a new session",
        stdio_forms=(StdioForm(("cmd",), ("args",)),),
        url_members=(("uri",),),
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        client_info_prefixes=("goose",),
    ),
    Client(
        "droid",
        "Factory Droid",
        (
            ConfigFile("user", "jsonc", MCP_SERVERS_PATHS, same_places("~/.factory/mcp.json")),
            ConfigFile("project", "jsonc", MCP_SERVERS_PATHS, same_places("./.factory/mcp.json")),
        ),
        source="docs.factory.ai/cli/configuration/mcp; seen with 0.215.0",
        step_after_edit="start a new session",
        client_info_prefixes=("factory-cli",),
    ),
    Client(
        "auggie",
        "Auggie",
        (
            ConfigFile("user", "jsonc", MCP_SERVERS_PATHS, same_places("~/.augment/settings.json")),
            ConfigFile(
                "project",
                "jsonc",
                MCP_SERVERS_PATHS,
                same_places("./.augment/settings.json", "./.augment/settings.local.json"),
            ),
        ),
        source="docs.augmentcode.com/cli/integrations; seen with 0.36.0",
        step_after_edit="start a new session",
        client_info_prefixes=("augment-mcp-client",),
        joins_words=True,
        environment=SDK_ENVIRONMENT,
    ),
    Client(
        "mcporter",
        "mcporter",
        (
            ConfigFile(
                "user",
                "jsonc",
                MCP_SERVERS_PATHS,
                same_places("~/.mcporter/mcporter.json", "~/.mcporter/mcporter.jsonc"),
            ),
            ConfigFile("project", "jsonc", MCP_SERVERS_PATHS, same_places("./config/mcporter.json")),
        ),
        source="steipete/mcporter, docs/config.md; seen with 0.9.0 and 0.12.3",
        step_after_edit="",
        stdio_forms=(*STDIO_FORMS, StdioForm(("command",), None), StdioForm(("executable",), ("args",))),
        splits_command=True,
        url_members=(("baseUrl",), ("base_url",), ("url",), ("serverUrl",), ("server_url",)),
        proxies_loopback=False,
        variables=(variable_forms.SHELL_FORM, variable_forms.MCPORTER_ENV_FORM),
        env_variables=(
            variable_forms.MCPORTER_WHOLE_FORM,
            variable_forms.MCPORTER_LEADING_FORM,
            variable_forms.MCPORTER_ENV_FORM,
        ),
        starts_in_file_folder=True,
        client_info_prefixes=("mcporter",),
    ),
    Client(
        "antigravity",
        "Antigravity",
        (
            ConfigFile(
                "user",
                "json",
                MCP_SERVERS_PATHS,
                same_places("~/.gemini/config/mcp_config.json", "~/.gemini/antigravity/mcp_config.json"),
            ),
            ConfigFile("project", "json", MCP_SERVERS_PATHS, same_places("./.agents/mcp_config.json")),
        ),
        source="ChromeDevTools/chrome-devtools-mcp, docs; snyk/agent-scan, agents/vscode/antigravity.py",
        step_after_edit="refresh the servers in its MCP panel",
        url_members=(("serverUrl",), ("url",)),
    ),
    Client(
        "windsurf",
        "Windsurf / Devin Desktop",
        (
            ConfigFile(
                "user",
                "json",
                MCP_SERVERS_PATHS,
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
                "project",
                "json",
                MCP_SERVERS_PATHS,
                same_places("./.devin/mcp_config.json", "./.devin/mcp_config.local.json"),
            ),
        ),
        source="docs.windsurf.com/windsurf/cascade/mcp; docs.devin.ai/cli/extensibility/mcp/configuration",
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        variables=(variable_forms.ENV_FORM,),
        step_after_edit="refresh the servers in its MCP panel",
        url_members=(("serverUrl",), ("url",)),
        client_info_prefixes=("windsurf",),
    ),
    Client(
        "cline",
        "Cline",
        (
            ConfigFile(
                "user",
                "json",
                MCP_SERVERS_PATHS,
                same_places("~/.cline/data/settings/cline_mcp_settings.json"),
                is_shared=True,
            ),
        ),
        source="cline/cline, sdk/packages/shared/src/storage/paths.ts; file read by 3.0.65",
        step_after_edit="",
        stdio_forms=(*STDIO_FORMS, StdioForm(("transport", "command"), ("transport", "args"))),
        url_members=(*URL_MEMBERS, ("transport", "url")),
        overrides=(
            ("CLINE_MCP_SETTINGS_PATH", "~/.cline/data/settings/cline_mcp_settings.json"),
            ("CLINE_DATA_DIR", "~/.cline/data"),
        ),
        client_info_prefixes=("@cline/", "Cline"),
        locks_with_folder=True,
    ),
    Client(
        "continue",
        "Continue",
        (
            ConfigFile("user", "yaml", MCP_SERVERS_PATHS, same_places("~/.continue/config.yaml")),
            ConfigFile("project", "yaml", MCP_SERVERS_PATHS, same_places("./.continue/mcpServers/*.yaml")),
            ConfigFile("project", "json", MCP_SERVERS_PATHS, same_places("./.continue/mcpServers/*.json")),
        ),
        source="docs.continue.dev/customize/deep-dives/mcp; seen with CLI 1.5.47",
        step_after_edit="reload its configuration, or start a new session",
        client_info_prefixes=("continue",),
    ),
    Client(
        "kiro",
        "Kiro",
        (
            ConfigFile(
                "user",
                "json",
                (*MCP_SERVERS_PATHS, ("powers", "mcpServers")),
                same_places("~/.kiro/settings/mcp.json", "~/.kiro/agents/*.json"),
            ),
            ConfigFile(
                "project", "json", MCP_SERVERS_PATHS, same_places("./.kiro/settings/mcp.json", "./.kiro/agents/*.json")
            ),
        ),
        source="kiro.dev/docs/mcp/configuration, /docs/cli/mcp/configuration",
        step_after_edit="",
        client_info_prefixes=("kiro",),
    ),
    Client(
        "amazon-q",
        "Amazon Q CLI",
        (
            ConfigFile(
                "user",
                "json",
                MCP_SERVERS_PATHS,
                same_places("~/.aws/amazonq/cli-agents/*.json", "~/.aws/amazonq/mcp.json"),
            ),
            ConfigFile(
                "project", "json", MCP_SERVERS_PATHS, same_places("./.amazonq/cli-agents/*.json", "./.amazonq/mcp.json")
            ),
        ),
        source="aws/amazon-q-developer-cli, docs/agent-file-locations.md",
        step_after_edit="start a new chat",
        client_info_prefixes=("Q DEV CLI",),
    ),
    Client(
        "junie",
        "Junie",
        (
            ConfigFile("user", "json", MCP_SERVERS_PATHS, same_places("~/.junie/mcp/mcp.json")),
            ConfigFile("project", "json", MCP_SERVERS_PATHS, same_places("./.junie/mcp/mcp.json")),
        ),
        source="junie.jetbrains.com/docs/junie-cli-mcp-configuration.html",
        step_after_edit="switch the server off and on in Settings > Tools > Junie > MCP Settings",
    ),
    Client(
        "lm-studio",
        "LM Studio",
        (
            ConfigFile(
                "user", "json", MCP_SERVERS_PATHS, same_places("~/.lmstudio/mcp.json", "~/.cache/lm-studio/mcp.json")
            ),
        ),
        source="lmstudio.ai/docs/app/mcp; lmstudio-ai/lmstudio-bug-tracker#1371",
        step_after_edit="",
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
            ConfigFile("project", "json", (("mcp",),), same_places("./.crush.json", "./crush.json")),
        ),
        source="charmbracelet/crush, README.md",
        step_after_edit="restart it",
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        client_info_prefixes=("crush",),
    ),
    Client(
        "warp",
        "Warp",
        (
            ConfigFile("user", "json", MCP_SERVERS_PATHS, same_places("~/.warp/.mcp.json")),
            ConfigFile("project", "json", MCP_SERVERS_PATHS, same_places("./.warp/.mcp.json")),
        ),
        source="docs.warp.dev/agents/capabilities/mcp",
        step_after_edit="switch the server off and on in Settings > AI > MCP servers",
    ),
    Client(
        "amp",
        "Amp",
        (
            ConfigFile("user", "jsonc", (("amp.mcpServers",),), same_places("~/.config/amp/settings.json")),
            ConfigFile("project", "jsonc", (("amp.mcpServers",),), same_places("./.amp/settings.json")),
        ),
        source="ampcode.com/docs/customize/mcp; file read by 0.0.1790142911",
        step_after_edit="start a new session",
        step_after_project_edit="and run `amp mcp approve NAME`",
        overrides=(("XDG_CONFIG_HOME", "~/.config"),),
        client_info_prefixes=("amp",),
    ),
)
"""All clients, in the order in which commands list them."""


def client_by_id(name: str) -> Client | None:
    """Returns the client with this id, or None."""
    return next((client for client in CLIENTS if client.id == name), None)
