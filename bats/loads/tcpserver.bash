cat >"$work/server.py" <<-'PY'
	import signal, socketserver, sys
	class Answers(socketserver.StreamRequestHandler):
	    def handle(self):
	        for line in self.rfile: self.wfile.write(line.upper())
	class Server(socketserver.ThreadingTCPServer):
	    allow_reuse_address, daemon_threads, request_queue_size = True, True, 100
	signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
	Server(("127.0.0.1", int(sys.argv[1])), Answers).serve_forever()
PY
python=$(python3 -c 'import sys; print(sys.executable)')
start() {
	serve "$python" "$work/server.py" $port
	await $port
}
work() { load tcp $port 100 20 $'line of @\n' $'LINE OF @\n'; }
