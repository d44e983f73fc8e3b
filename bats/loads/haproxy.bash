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
