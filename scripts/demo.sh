#!/usr/bin/env bash
# kvboost from nothing to an answer: fetch the default model, index a small handbook, ask over several documents
# in an order that no cache has seen, and compare with full prefill. The store is made anew in .kvboost/demo.
set -euo pipefail
cd "$(dirname "$0")/.."
store=.kvboost/demo
handbook=examples/handbook
rm -rf "$store"

show() {
    printf '\n$ %s\n' "$*" >&2
    "$@"
}

show kvboost models pull
show kvboost index "$handbook" --store "$store"
show kvboost ask "How long does a full restore of the database take?" \
    -d "$handbook/releases.md" -d "$handbook/services.md" -d "$handbook/on-call.md" -d "$handbook/backups.md" \
    --store "$store" --max-tokens 64 --verify
show kvboost stats --store "$store"
