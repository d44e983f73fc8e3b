# Its parent looks each second, and says so if it finds few threads idle: here there always are, with 80 connections
# and 80 that it has yet to notice the end of.
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
		ThreadLimit 200
		ThreadsPerChild 200
		MaxRequestWorkers 200
		MinSpareThreads 1
		MaxKeepAliveRequests 0
	C
	serve apache2 -f "$run/conf" -DFOREGROUND
	await $port
}
work() { fetch $port 80 "$work/f"; }
