#!/usr/bin/env bash
# The version script: what calls.def names, and nothing else, is seen from outside.
# No versions: an unversioned symbol serves whatever version a program asks for.
echo '{ global:'
sed -n 's/^[CALIASPN]*([^,]*, \([A-Za-z_0-9]*\),.*/  \1;/p' "$1"
echo "  syscall; pthread_yield;"
echo 'local: *; };'
