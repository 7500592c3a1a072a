#!/usr/bin/env bash
# Annotates the findings, and fails if one is of the level FAIL_ON or worse, or if nothing was recorded.
set -euo pipefail

# Options are words: split at blanks, with no pattern replaced by names of files.
set -f
# shellcheck disable=SC2086
exec mcpproxy check --all --format github --fail-on "$FAIL_ON" $CHECK_OPTIONS "$CAPTURES"
