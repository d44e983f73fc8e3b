#!/usr/bin/env bash
# The version script. What is seen from outside is what calls.def names, and nothing else, by the visibility that EXPORT
# gives; unversioned, for then it serves whatever version a program asks for. Only what had another meaning in old versions
# of glibc, or is there for old programs alone, has versions.
old=GLIBC_2.2.5
new=GLIBC_2.34
case ${1:-script} in
script)
	echo "$old { local: old_*; __start_*; __stop_*; };"
	echo "$new { } $old;"
	;;
names) # calls.def: as nm -D has them
	sed -n 's/^[CALIASPN]*([^,]*, \([A-Za-z_0-9]*\),.*/\1/p' "$2" | sed "s/^pthread_kill$/&@@$new/"
	printf '%s\n' syscall pthread_kill@$old pthread_yield@$old $old $new
	;;
esac
