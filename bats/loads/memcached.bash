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
