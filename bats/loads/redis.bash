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
