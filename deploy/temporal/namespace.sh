#!/bin/sh
# Creates the namespace and the search attributes of turns. It can run again. TEMPORAL_ADDRESS and TEMPORAL_NAMESPACE name
# the server and the namespace.
set -eu
if ! temporal operator namespace describe -n "$TEMPORAL_NAMESPACE" >/dev/null 2>&1; then
  temporal operator namespace create -n "$TEMPORAL_NAMESPACE" --retention "${TEMPORAL_RETENTION:-720h}"
fi
attributes() {
  temporal operator search-attribute create -n "$TEMPORAL_NAMESPACE" \
    --name EverturnSession --type Keyword \
    --name EverturnAgent --type Keyword \
    --name EverturnModel --type Keyword \
    --name EverturnState --type Keyword \
    --name EverturnFinishReason --type Keyword \
    --name EverturnTools --type KeywordList \
    --name EverturnTokens --type Int \
    --name EverturnCostUSD --type Double
}
# The server learns of a new namespace within some seconds.
tries=0
until attributes; do
  tries=$((tries + 1))
  test "$tries" -lt 30
  sleep 1
done
