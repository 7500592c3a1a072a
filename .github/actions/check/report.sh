#!/usr/bin/env bash
# Writes the findings as SARIF and the HTML report beside the captures; the verdict is that of the step before.
set -euo pipefail

set -f
findings=$CAPTURES/findings.sarif
report=$CAPTURES/report.html
# A damaged capture is an error of the step before; what is intact is reported here.
# shellcheck disable=SC2086
mcpproxy check --all --format sarif --fail-on never $CHECK_OPTIONS "$CAPTURES" >"$findings" || [ -s "$findings" ]
mcpproxy report --all --force -o "$report" "$CAPTURES" || [ -s "$report" ]
printf 'findings=%s\nreport=%s\n' "$findings" "$report" >>"$GITHUB_OUTPUT"
