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
