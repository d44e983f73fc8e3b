origin "$work/f"
start() {
	printf 'vcl 4.1;\nbackend b { .host = "127.0.0.1"; .port = "%s"; }\n' $origin >"$run/vcl"
	serve varnishd -F -j none -n "$run/n" -f "$run/vcl" -a 127.0.0.1:$port -T none -s malloc,64m
	await $port
}
work() { fetch $port 100 "$work/f"; }
