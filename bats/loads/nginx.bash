start() {
	nginx_conf "$run" $port "$work/f" 'aio threads;'
	serve nginx -p "$run" -c conf
	await $port
}
work() { fetch $port 100 "$work/f"; }
