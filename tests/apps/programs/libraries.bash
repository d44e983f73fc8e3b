# Libraries of threads, each by a program of ours that checks what it gets.

app c11 "C11's threads" gcc libc6-dev
app_c11() {
	program threads -g
	good "$file"
}

app cxx "C++20: futures, barriers, semaphores, shared locks, atomic waits, 500 stop tokens" g++
app_cxx() {
	program cxx
	good "$file"
}

app openmp "libgomp, 8 threads that wait asleep, then awake" gcc libc6-dev
app_openmp() {
	program openmp -fopenmp
	good OMP_NUM_THREADS=8 OMP_WAIT_POLICY=passive "$file"
	good OMP_NUM_THREADS=8 OMP_WAIT_POLICY=active "$file"
}

app tbb "oneTBB and Boost's threads" g++ libtbb-dev libboost-thread-dev
app_tbb() {
	program tbb -ltbb -lboost_thread -lboost_chrono -lboost_system
	good "$file"
}

app glib "GLib's locks, pools, queues, main loops, tasks" gcc libglib2.0-dev pkg-config
app_glib() {
	# shellcheck disable=SC2046  # words
	program glib $(pkg-config --cflags --libs gio-2.0)
	good G_SLICE=always-malloc "$file"
}

app collector "Boehm's collector: signals to 18 threads, and their stacks" gcc libgc-dev
app_collector() {
	program collector -lgc
	good "$file"
}

app rust "std::thread: channels, conditions, 300 parked, sockets, children" rustc
app_rust() {
	program rust
	good "$file"
}

# Who dies says the same, and in the same way.
app rust-ends "panics and stack overflows, of the first thread and of others: the message, the status" rustc
app_rust_ends() {
	program ends
	for way in panic overflow; do
		for who in first other nameless; do
			status=0
			under "$file" $way $who >said 2>&1 || status=$?
			[ $status -eq $([ $way = panic ] && echo 101 || echo 134) ]
			# Some versions tell the number of the thread, too; the shell tells who was aborted.
			sed -E "s/' \\([0-9]+\\)/'/; /: line [0-9]+: /d" said >>ends
		done
	done
	[ "$(grep -c 'has overflowed its stack' ends)" -eq 3 ]
	[ "$(grep -c "panicked at" ends)" -eq 3 ]
	same_as_natively ends
}

# The C++ program, with an allocator that has threads or their data of its own, preloaded behind heddle.
allocated() {
	local object=/usr/lib/x86_64-linux-gnu/$1 own=("${preload[@]}")
	program cxx
	[ ${#own[@]} -gt 0 ] && own[1]+=:$object || own=("LD_PRELOAD=$object")
	local preload=("${own[@]}")
	good "${@:2}" "$file"
}

app tcmalloc "the C++ program with tcmalloc" g++ libtcmalloc-minimal4
app_tcmalloc() { allocated libtcmalloc_minimal.so.4; }

app jemalloc "the C++ program with jemalloc and its thread" g++ libjemalloc2
app_jemalloc() { allocated libjemalloc.so.2 MALLOC_CONF=background_thread:true,dirty_decay_ms:10; }
