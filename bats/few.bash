# What programs that nobody here wrote are held to: natively and under heddle the same output, and few kernel threads.

# figure NAME FILE: of the line that HEDDLE_STATS has left there.
figure() {
	sed -n "s/.*\<$1=\([0-9]*\).*/\1/p" "$2"
}

# the_same_on_few TEAM ROOM COMMAND...: what it makes of $work/in is natively and at GOMAXPROCS 1, 2 and 8 the same, byte
# by byte. TEAM threads of it live at once, at least; the kernel threads are no more than GOMAXPROCS + 3, and one that was
# still on its way to sleep, for want of a cpu, when another was needed; and one for each call in which the kernel kept a
# thread while others could run: a read of a file, or a yield to others on a machine with more to do. Of those there are
# at most ROOM at once.
the_same_on_few() {
	local team=$1 room=$2 procs most gave
	shift 2
	"$@" <"$work/in" >"$work/native" 2>/dev/null
	for procs in 1 2 8; do
		rm -f "$work/stats"
		HEDDLE_STATS=$work/stats preloaded $procs timeout 100 "$@" <"$work/in" >"$work/out" 2>"$work/said"
		cmp "$work/native" "$work/out"
		if grep heddle "$work/said"; then return 1; fi
		most=$(figure kernelthreads "$work/stats")
		gave=$(($(figure retakecall "$work/stats") + $(figure retakeblock "$work/stats")))
		echo "GOMAXPROCS=$procs: $most kernel threads for $(figure threads "$work/stats"), $gave calls gave way"
		[ "$(figure threads "$work/stats")" -ge "$team" ]
		[ "$most" -le $((procs + 4 + (gave < room ? gave : room))) ]
	done
}
