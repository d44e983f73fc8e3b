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
