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

as_root() { [ "$(id -u)" -ne 0 ] || echo "$@"; }

value=$(printf '%0200d' 7)

@test "memcached" {
	start() {
		# shellcheck disable=SC2046  # words
		serve memcached $(as_root -u root) -l 127.0.0.1 -p $port -U 0 -t 8 -c 1000
		await $port
	}
	work() {
		printf 'set total 0 0 1 noreply\r\n0\r\nquit\r\n' >/dev/tcp/127.0.0.1/$port
		load tcp $port 100 50 $'set k@ 0 0 200\r\n'"$value"$'\r\n' $'STORED\r\n' \
			$'get k@\r\n' $'VALUE k@ 0 200\r\n'"$value"$'\r\nEND\r\n' \
			$'incr total 1 noreply\r\nget no k@\r\n' $'VALUE k@ 0 200\r\n'"$value"$'\r\nEND\r\n'
		exec 5<>/dev/tcp/127.0.0.1/$port
		printf 'get total\r\nquit\r\n' >&5
		[ "$(sed -n '2s/[^0-9]//gp' <&5)" -eq "$turns" ]
		exec 5>&-
	}
	compare "memcached -t 8"
}

@test "redis" {
	start() {
		serve redis-server --bind 127.0.0.1 --port $port --dir "$run" --save '' --appendonly yes \
			--io-threads 4 --io-threads-do-reads yes
		await $port
	}
	work() {
		redis-cli -p $port set total 0 | grep -q OK
		load tcp $port 100 0 $'SET k@ '"$value"$'\r\n' $'+OK\r\n' $'GET k@\r\n' $'$200\r\n'"$value"$'\r\n' \
			$'CLIENT REPLY SKIP\r\nINCR total\r\nGET k@\r\n' $'$200\r\n'"$value"$'\r\n' \
			$'RPUSH l@ a b c\r\nLPOP l@ 3\r\n' $':3\r\n*3\r\n$1\r\na\r\n$1\r\nb\r\n$1\r\nc\r\n'
		[ "$(redis-cli -p $port get total)" -eq "$turns" ]
		redis-cli -p $port info persistence | grep -q 'aof_last_write_status:ok'
	}
	compare "redis, 4 I/O threads"
}

@test "mariadb" {
	cat >"$work/turns.lua" <<-'LUA'
		-- Reads a row, whose value it knows, and adds one to another.
		function thread_init() con = sysbench.sql.driver():connect() end
		function thread_done() con:disconnect() end
		function event()
			local id = sysbench.rand.uniform(1, 5000)
			local c = con:query_row("select c from t.read where id = " .. id)
			if c ~= id .. " is read" then error("row " .. id .. " has " .. tostring(c)) end
			con:query("update t.wrote set n = n + 1 where id = " .. id)
		end
	LUA
	start() {
		# An empty directory will do for who asks for no grants.
		# shellcheck disable=SC2046  # words
		serve mariadbd --no-defaults $(as_root --user=root) --datadir="$run" --socket="$run/s" --skip-networking \
			--skip-grant-tables --innodb-log-file-size=8M --innodb-buffer-pool-size=64M \
			--innodb-flush-log-at-trx-commit=2 --max-connections=300
		await "$run/s"
		sql 'create database t; use t; create table t.read (id int primary key, c text);
			create table t.wrote (id int primary key, n int not null);
			insert into t.read select seq, concat(seq, " is read") from seq_1_to_5000;
			insert into t.wrote select seq, 0 from seq_1_to_5000'
	}
	sql() { mariadb --no-defaults -u root -S "$run/s" -N -B -e "$1"; }
	work() {
		sql 'update t.wrote set n = 0'
		sysbench --db-driver=mysql --mysql-socket="$run/s" --mysql-user=root --mysql-db=t --threads=256 \
			--time=$seconds --events=0 "$work/turns.lua" run >"$work/load"
		[ "$(sql 'select sum(n) from t.wrote')" -eq "$(sed -n 's/.*total number of events: *//p' "$work/load")" ]
		rate=$(sed -n 's/.*transactions:.*(\([0-9]*\).*/\1/p' "$work/load")
		grep -q 'ignored errors: *0 ' "$work/load"
		[[ $(sql 'check table t.read, t.wrote') != *rror* ]]
	}
	compare "mariadb, 256 connections"
}

@test "varnish" {
	origin "$work/f"
	start() {
		printf 'vcl 4.1;\nbackend b { .host = "127.0.0.1"; .port = "%s"; }\n' $origin >"$run/vcl"
		serve varnishd -F -j none -n "$run/n" -f "$run/vcl" -a 127.0.0.1:$port -T none -s malloc,64m
		await $port
	}
	work() { fetch $port 100 "$work/f"; }
	compare varnish
}

@test "apache" {
	start() {
		cat >"$run/conf" <<-C
			ServerRoot $run
			ServerName localhost
			Listen 127.0.0.1:$port
			PidFile $run/pid
			DefaultRuntimeDir $run
			ErrorLog /dev/stderr
			DocumentRoot $work
			$(as_root User nobody)
			$(as_root Group nogroup)
			LoadModule mpm_worker_module /usr/lib/apache2/modules/mod_mpm_worker.so
			LoadModule authz_core_module /usr/lib/apache2/modules/mod_authz_core.so
			ServerLimit 1
			StartServers 1
			ThreadsPerChild 100
			MaxRequestWorkers 100
			MaxKeepAliveRequests 0
		C
		serve apache2 -f "$run/conf" -DFOREGROUND
		await $port
	}
	work() { fetch $port 80 "$work/f"; }
	compare "apache, worker"
}

@test "haproxy" {
	origin "$work/f"
	start() {
		cat >"$run/conf" <<-C
			global
			 nbthread 4
			defaults
			 mode http
			 timeout connect 20s
			 timeout client 20s
			 timeout server 20s
			frontend f
			 bind 127.0.0.1:$port
			 default_backend b
			backend b
			 server s 127.0.0.1:$origin
		C
		serve haproxy -db -f "$run/conf"
		await $port
	}
	work() { fetch $port 100 "$work/f"; }
	compare "haproxy, 4 threads"
}

@test "nginx" {
	start() {
		nginx_conf "$run" $port "$work/f" 'aio threads;'
		serve nginx -p "$run" -c conf
		await $port
	}
	work() { fetch $port 100 "$work/f"; }
	compare "nginx, aio threads"
}

@test "unbound" {
	start() {
		cat >"$run/conf" <<-C
			server:
				num-threads: 4
				port: $port
				interface: 127.0.0.1
				do-daemonize: no
				chroot: ""
				username: ""
				directory: "$run"
				pidfile: "$run/pid"
				use-syslog: no
				module-config: "iterator"
				$(printf 'local-data: "h%04d.test. 60 TXT t%04d"\n' $(for i in {0..99}; do echo $i $i; done))
			remote-control:
				control-enable: no
		C
		serve unbound -d -c "$run/conf"
		await $port
	}
	work() {
		local asked='\x05h@\x04test\x00\x00\x10\x00\x01'
		load udp $port 100 500 '\x12\x34\x01\x00\x00\x01\x00\x00\x00\x00\x00\x00'"$asked" \
			'\x12\x34\x85\x80\x00\x01\x00\x01\x00\x00\x00\x00'"$asked"'\xc0\x0c\x00\x10\x00\x01\x00\x00\x00\x3c\x00\x06\x05t@'
	}
	compare "unbound, 4 threads"
}

@test "python's ThreadingTCPServer" {
	cat >"$work/server.py" <<-'PY'
		import signal, socketserver, sys
		class Answers(socketserver.StreamRequestHandler):
		    def handle(self):
		        for line in self.rfile: self.wfile.write(line.upper())
		class Server(socketserver.ThreadingTCPServer):
		    allow_reuse_address, daemon_threads, request_queue_size = True, True, 100
		signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
		Server(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
	PY
	python=$(python3 -c 'import sys; print(sys.executable)')
	start() {
		serve "$python" "$work/server.py" $port
		await $port
	}
	work() { load tcp $port 100 20 $'line of @\n' $'LINE OF @\n'; }
	compare "python's ThreadingTCPServer"
}

@test "curl" {
	origin "$work/f"
	for i in {1..60}; do seq $i $((i + 5000)) >"$work/$i"; done
	# An address that only getaddrinfo understands: each transfer has a thread look it up.
	for i in {1..1500}; do
		printf 'url = "http://h%d.test:%d/%d"\nconnect-to = "::127.0x%0*d:%d"\noutput = "%s"\n' \
			$i $origin $((i % 60 + 1)) $((i % 60 + 1)) 1 $origin "out/$i"
	done >"$work/transfers"
	start() { mkdir "$run/out"; }
	work() {
		cd "$run"
		local began=$EPOCHREALTIME
		serve curl --no-progress-meter --parallel --parallel-max 50 -K "$work/transfers"
		watching $pid
		status=0
		wait $pid || status=$?
		pid=
		rate=$(awk "BEGIN { printf \"%.0f\", 1500 / ($EPOCHREALTIME - $began) }")
		[ "$status" -eq 0 ]
		python3 -c '
import sys
for i in range(1, 1501):
    with open(f"{sys.argv[1]}/{i % 60 + 1}", "rb") as want, open(f"out/{i}", "rb") as got:
        assert got.read() == want.read(), i' "$work"
		rm out/*
	}
	compare "curl --parallel, 1500 transfers"
}
