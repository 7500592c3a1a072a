#!/usr/bin/env bash
# Annotates the findings, and fails if one is of the level CHECK_FAIL_ON or worse, or if nothing was recorded.
set -euo pipefail

if [ -z "$(find "$CHECK_CAPTURES" -name '*.mcpcap' -print -quit 2>/dev/null)" ]; then
    echo "::error title=mcpproxy::nothing was recorded: the client has not started \$MCP_SERVER, or not used \$MCP_URL"
    exit 2
fi
# Options are words: split at blanks, with no pattern replaced by names of files. Those that the steps rely on come last.
set -f
# shellcheck disable=SC2086
exec mcpproxy check $CHECK_OPTIONS --all --format github --fail-on "$CHECK_FAIL_ON" "$CHECK_CAPTURES"
