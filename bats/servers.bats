#!/usr/bin/env bats
# Servers under load: the answers of the native run, as fast, on fewer kernel threads.
load common
load servers

setup_file() { build_load; }

setup() {
	begun=
	# Others may come here: the server of apache is nobody.
	chmod a+rx "$BATS_RUN_TMPDIR" "$BATS_RUN_TMPDIR/test" "$work" 2>/dev/null || true
	# What is served as a file: neither small nor all alike.
	seq 5000 | head -c 20000 >"$work/f"
	chmod -R a+rX "$work"
}

teardown() {
	local p
	disown -a
	for p in $begun; do kill -KILL -- "-$p" 2>/dev/null || true; done
	if [ -z "$BATS_TEST_COMPLETED" ]; then
		tail -n 20 "$work"/{,*/}log "$work/load" 2>/dev/null || true
	fi
}

@test "memcached" {
	source "$top/bats/loads/memcached.bash"
	compare "memcached -t 8"
}

@test "redis" {
	source "$top/bats/loads/redis.bash"
	compare "redis, 4 I/O threads"
}

@test "mariadb" {
	source "$top/bats/loads/mariadb.bash"
	compare "mariadb, 256 connections"
}

@test "varnish" {
	source "$top/bats/loads/varnish.bash"
	compare varnish
}

@test "apache" {
	source "$top/bats/loads/apache.bash"
	compare "apache, worker"
}

@test "haproxy" {
	source "$top/bats/loads/haproxy.bash"
	compare "haproxy, 4 threads"
}

@test "nginx" {
	source "$top/bats/loads/nginx.bash"
	compare "nginx, aio threads"
}

@test "unbound" {
	source "$top/bats/loads/unbound.bash"
	compare "unbound, 4 threads"
}

@test "python's ThreadingTCPServer" {
	source "$top/bats/loads/tcpserver.bash"
	compare "python's ThreadingTCPServer"
}

@test "curl" {
	source "$top/bats/loads/curl.bash"
	compare "curl --parallel, 1500 transfers"
}

@test "ten thousand connections, a thread each" {
	[ "$(ulimit -Hn)" -ge 10100 ] || skip "no more than $(ulimit -Hn) descriptors"
	run timeout 100 "$top/build/bench/echo" against 10000 GOMAXPROCS=2 LD_PRELOAD="$heddle"
	echo "$output"
	[ "$status" -eq 0 ]
	# Six, and one more for each call that was under way when its kernel thread lost the cpu to
	# others: its P goes on with a new one. Natively it is 10,001.
	kthreads=$(sed -n 's/ threads$//p' <<<"$output")
	[ "$kthreads" -le 20 ]
}
