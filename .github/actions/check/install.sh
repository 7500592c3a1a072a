#!/usr/bin/env bash
# Installs mcpproxy from the checkout that this Action is part of, into an environment of its own: the job's packages stay as they are.
set -euo pipefail

place=$RUNNER_TEMP/mcpproxy
"$CHECK_PYTHON" -m venv "$place/venv"
"$place/venv/bin/pip" install --quiet "$GITHUB_ACTION_PATH/../../.."
# Only the one program, not pip or python beside it.
mkdir -p "$place/bin"
ln -sf ../venv/bin/mcpproxy "$place/bin/mcpproxy"
echo "$place/bin" >>"$GITHUB_PATH"
"$place/bin/mcpproxy" --version
