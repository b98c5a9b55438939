#!/bin/sh
# Stands in for an engine's program: it is put through some operations, prints half a line, says in the file MARK that it came
# so far, and then ends as ENGINE_END wants it.
read -r settings
echo '{"event":{"opened":{"version":"1","notes":[]}}}' >&0
echo '{"event":{"begin":{"number":0}}}' >&0
echo '{"event":{"progress":{"done":100}}}' >&0
printf 'half a line of an engine'
echo '{"event":{"progress":{"done":123}}}' >&0
[ -z "$MARK" ] || : >"$MARK"
case "$ENGINE_END" in
crash) kill -KILL $$ ;;
*) exec sleep 1000000 ;;
esac
