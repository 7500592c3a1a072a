#!/usr/bin/env bash
# Writes the HTML report and the findings as SARIF beside the captures; the verdict is that of the step before.
set -euo pipefail

if [ -z "$(find "$CHECK_CAPTURES" -name '*.mcpcap' -print -quit 2>/dev/null)" ]; then
    exit 0
fi
set -f
report=$CHECK_CAPTURES/report.html
findings=$CHECK_CAPTURES/findings.sarif
# Both fail if a capture is damaged, and have written all the same what is intact.
mcpproxy report --all --force -o "$report" "$CHECK_CAPTURES" || [ -s "$report" ]
echo "report=$report" >>"$GITHUB_OUTPUT"
# shellcheck disable=SC2086
mcpproxy check $CHECK_OPTIONS --all --format sarif --fail-on never "$CHECK_CAPTURES" >"$findings" || true
if [ -s "$findings" ]; then
    echo "findings=$findings" >>"$GITHUB_OUTPUT"
else
    rm -f "$findings"
fi
