start() {
	# shellcheck disable=SC2046  # words
	serve memcached $(as_root -u root) -l 127.0.0.1 -p $port -U 0 -t 8 -c 1000
	await $port
}
# told COMMANDS: what it answers to them.
told() {
	exec 5<>/dev/tcp/127.0.0.1/$port
	printf '%b' "$1quit\r\n" >&5
	cat <&5
	exec 5>&-
}
work() {
	# Answered: of two connections that ask for nothing, the second may be served first.
	[[ $(told 'set total 0 0 1\r\n0\r\n') == STORED* ]]
	load tcp $port 100 50 $'set k@ 0 0 200\r\n'"$value"$'\r\n' $'STORED\r\n' \
		$'get k@\r\n' $'VALUE k@ 0 200\r\n'"$value"$'\r\nEND\r\n' \
		$'incr total 1 noreply\r\nget no k@\r\n' $'VALUE k@ 0 200\r\n'"$value"$'\r\nEND\r\n'
	[ "$(told 'get total\r\n' | sed -n '2s/[^0-9]//gp')" -eq "$turns" ]
}
