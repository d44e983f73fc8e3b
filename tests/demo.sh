#!/usr/bin/env bash
# The same program, natively and under heddle: how many threads it has, and how many of them
# the kernel knows. Usage: demo.sh BUILD
cd "$(dirname "$0")/.." || exit 1
program='
import threading
def kernel_threads():
    for line in open("/proc/self/status"):
        if line.startswith("Threads:"):
            return int(line.split()[1])
n = 500
gate = threading.Event()
ready = threading.Semaphore(0)
def work():
    ready.release()
    gate.wait()
threads = [threading.Thread(target=work) for _ in range(n)]
for t in threads: t.start()
for _ in range(n): ready.acquire()
print(f"python3 with {threading.active_count()} threads: {kernel_threads()} kernel threads")
gate.set()
for t in threads: t.join()
'
echo "natively:"
python3 -c "$program"
echo "LD_PRELOAD=$1/libheddle.so GOMAXPROCS=2:"
LD_PRELOAD="$PWD/$1/libheddle.so" GOMAXPROCS=2 python3 -c "$program"
