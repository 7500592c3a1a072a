#!/usr/bin/env bash
# Records while a client talks to the server: CHECK_SERVER is its command or CHECK_URL its address, and CHECK_CLIENT talks to it.
set -euo pipefail

if [ -n "$CHECK_SERVER" ] && [ -n "$CHECK_URL" ] || [ -z "$CHECK_SERVER$CHECK_URL" ]; then
    echo "::error title=mcpproxy::give either server or url, so that there is one server to record"
    exit 2
fi
place=$RUNNER_TEMP/mcpproxy
mkdir -p "$place"
mkdir -p -m 700 "$CHECK_CAPTURES"
captures=$(cd "$CHECK_CAPTURES" && pwd)/

if [ -n "$CHECK_SERVER" ]; then
    # One word for the client to start, whatever the command contains.
    export MCP_SERVER=$place/server
    printf '#!/usr/bin/env bash\nexec mcpproxy run --capture %q --name %q -- bash -c %q\n' \
        "$captures" "$CHECK_NAME" "$CHECK_SERVER" >"$MCP_SERVER"
    chmod +x "$MCP_SERVER"
    if [ -n "$CHECK_CLIENT" ]; then
        bash -euo pipefail -c "$CHECK_CLIENT"
    else
        mcpproxy doctor -- "$MCP_SERVER"
    fi
    exit
fi

# `serve` prints the address for the client on stdout once it listens.
mkfifo "$place/address"
trap 'rm -f "$place/address"' EXIT
mcpproxy serve --capture "$captures" --name "$CHECK_NAME" "$CHECK_URL" >"$place/address" &
recorder=$!
if ! read -r MCP_URL <"$place/address"; then
    wait "$recorder"
fi
export MCP_URL
status=0
if [ -n "$CHECK_CLIENT" ]; then
    bash -euo pipefail -c "$CHECK_CLIENT" || status=$?
else
    mcpproxy doctor "$MCP_URL" || status=$?
fi
kill -TERM "$recorder"
wait "$recorder"
exit "$status"
