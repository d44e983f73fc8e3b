# Servers: what bats/servers.bats does with them is in bats/loads; here they give answers for a second or two.

# served LOAD: what took so long is a thousand answers.
served() {
	local pid='' rate=0 status=0 port=0 watcher=''
	work=$run
	seconds=${APPS_SECONDS:-2}
	mkdir "$run/server"
	[ -e "$cache/load" ] || build_load
	# Others may come here: the server of apache is nobody.
	chmod a+rx "$run"
	head -c 20000 <(seq 5000) >"$work/f"
	chmod a+r "$work/f"
	# shellcheck disable=SC1090  # one of them
	source "$top/bats/loads/$1.bash"
	free_port
	run=$run/server
	start
	work
	if [ -n "$pid" ]; then
		finish
		[ "$status" -eq 0 ] || [ "$status" -eq "${ends:-0}" ]
	fi
	run=${run%/server}
	awk "BEGIN { print 0, 1000 / $rate }" >"$run/.took"
}

serve() {
	begin env "${preload[@]}" "$@" >"$run/log" 2>&1
	echo "$pid" >>"$work/.pids"
}
watching() { :; }

app memcached "8 threads, 100 connections: set, get, incr" memcached
app_memcached() { served memcached; }

app redis "4 I/O threads, 100 connections: set, get, incr, lists" redis-server
app_redis() { served redis; }

app mariadb "256 connections that read and write" mariadb-server-core mariadb-client-core sysbench
app_mariadb() { served mariadb; }

app varnish "100 connections, one in ten to the origin" varnish nginx wrk
app_varnish() { served varnish; }

app apache "200 threads, 80 connections" apache2-bin wrk
app_apache() { served apache; }

app haproxy "4 threads, 100 connections" haproxy nginx wrk
app_haproxy() { ends=143 served haproxy; }

app nginx "a pool of threads for files, 100 connections" nginx wrk
app_nginx() { served nginx; }

app unbound "4 threads, 100 askers" unbound
app_unbound() { served unbound; }

app tcpserver "Python's server with a thread for each of 100 connections" python3
app_tcpserver() { ends=7 served tcpserver; }

app curl "1,500 transfers, 50 at once, a thread to look up each name" curl nginx
app_curl() { served curl; }
