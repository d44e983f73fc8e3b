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
