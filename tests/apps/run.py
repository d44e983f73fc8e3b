#!/usr/bin/env python3
"""The matrix of real programs, natively and under heddle: `make apps`.

Usage: run.py BUILD [NAME...]   those programs only; make apps ROWS="pigz redis"
       RUNS=n                   so many runs of each instead of three
       APPS_PROCS=n             GOMAXPROCS under heddle, 2 without it

A run is a fresh directory and a fresh process, and natively and under heddle they take turns. A program checks
what it made; what it takes is a median. The ratio is the native time by heddle's: above 1, heddle is faster; of
a server the time is that of a thousand answers. Kernel threads are the most that one process of the program was
seen to have. Wired threads and unannounced blocks are heddle's own counts, of all processes that made threads
and came to their end by themselves. BUILD/apps.md has the table, and the exit status is 1 if anything failed that
does not fail natively."""

import math
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

HERE = os.path.dirname(os.path.abspath(__file__))
WAYS = ("native", "heddle")
SECONDS = 600  # for a run


def text_of(path):
    try:
        with open(path, encoding="utf-8", errors="replace") as f:
            return f.read()
    except OSError:
        return ""


class Watch(threading.Thread):
    """Looks how many kernel threads the processes have that are named in .pids, and their children: the most is in .most."""

    def __init__(self, where):
        super().__init__(daemon=True)
        self.where, self.most, self.over = where, 0, threading.Event()

    def family(self, pid):
        yield pid
        for task in self.tasks(pid):
            for child in text_of(f"/proc/{pid}/task/{task}/children").split():
                yield from self.family(child)

    @staticmethod
    def tasks(pid):
        try:
            return os.listdir(f"/proc/{pid}/task")[:1]  # who made it is not asked of each thread of thousands
        except OSError:
            return []

    def run(self):
        while not self.over.wait(0.01):
            for pid in text_of(f"{self.where}/.pids").split():
                for p in self.family(pid):
                    found = re.search(r"^Threads:\s+(\d+)", text_of(f"/proc/{p}/status"), re.MULTILINE)
                    if found and int(found[1]) > self.most:
                        self.most = int(found[1])
                        with open(f"{self.where}/.most", "w", encoding="utf-8") as f:
                            f.write(f"{self.most}\n")


def run(build, name, way):
    """Seconds, kernel threads, wired, unannounced; or why it failed."""
    where = tempfile.mkdtemp(prefix=f"heddle-{name}-")
    os.chmod(where, 0o755)
    env = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE") and k not in ("LD_PRELOAD", "GOMAXPROCS")}
    env["APPS_CACHE"] = f"{build}/apps"
    watch = Watch(where)
    watch.start()
    child = subprocess.Popen(["bash", f"{HERE}/one.bash", name, way, where], env=env, stdin=subprocess.DEVNULL,
                             stdout=subprocess.PIPE, stderr=subprocess.STDOUT, start_new_session=True)
    try:
        out = child.communicate(timeout=SECONDS)[0].decode(errors="replace").strip()
    except subprocess.TimeoutExpired:
        out = f"not at its end after {SECONDS} s"
    finally:
        try:
            os.killpg(child.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        child.wait()
        watch.over.set()
        watch.join()
    counted = [dict(w.split("=", 1) for w in line.split()) for line in text_of(f"{where}/.stats").splitlines()]
    shutil.rmtree(where, ignore_errors=True)
    took = re.search(r"^took ([\d.]+)$", out, re.MULTILINE)
    if child.returncode != 0 or not took:
        return " | ".join(out.splitlines()[-3:]) or f"status {child.returncode}"
    peak = max([watch.most, *(int(c["kernelthreads"]) for c in counted)])
    return float(took[1]), peak, *(sum(int(c[k]) for c in counted) for k in ("wired", "retakeblock")), len(counted)


def median(values):
    v = sorted(values)
    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2


def measure(build, name, runs):
    """The figures of both ways, or a word for each failure."""
    found = {w: [] for w in WAYS}
    wrong = {}
    for _ in range(runs):
        for way in WAYS:
            if way not in wrong:
                got = run(build, name, way)
                if isinstance(got, str):
                    wrong[way] = got
                else:
                    found[way].append(got)
    return found, wrong


ROW = "| {} | {} | {} | {} | {} | {} | {} | {} | {} |"
TITLES = ("program", "what it does", "result", "native s", "ratio", "range", "kernel threads", "wired", "unannounced")


def line(name, what, found, wrong):
    if wrong:
        result = "fails natively, too" if "native" in wrong else "FAILS"
        return ROW.format(name, what, result, *["-"] * 6), None
    native, heddle = ([r[0] for r in found[w]] for w in WAYS)
    ratio = median(native) / median(heddle)
    pairs = [n / h for n, h in zip(native, heddle)]
    threads = " to ".join(str(max(r[1] for r in found[w])) for w in WAYS)
    counts = [max(r[i] for r in found["heddle"]) for i in (2, 3)]
    if all(r[4] == 0 for r in found["heddle"]):  # nobody made threads, or nobody ended by himself
        counts = ["-", "-"]
    return ROW.format(name, what, "passes", f"{median(native):.2f}", f"{ratio:.2f}",
                      f"{min(pairs):.2f} to {max(pairs):.2f}", threads, *counts), ratio


def main():
    if len(sys.argv) < 2 or not os.path.isdir(sys.argv[1]):
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    runs = int(os.environ.get("RUNS") or 3)
    listed = subprocess.run(["bash", f"{HERE}/one.bash", "--list"], capture_output=True, text=True, check=True).stdout
    programs = dict(row.split("\t") for row in listed.splitlines())
    for name in sys.argv[2:]:
        if name not in programs:
            sys.exit(f"no program is called {name}; there are: {' '.join(programs)}")
    os.makedirs(f"{build}/apps", exist_ok=True)
    os.chmod(f"{build}/apps", 0o755)
    table = [ROW.format(*TITLES), ROW.format(*["---"] * len(TITLES))]
    ratios, failures, passed, natively = [], [], 0, []
    print("\n".join(table))
    began = time.monotonic()
    for name in sys.argv[2:] or programs:
        found, wrong = measure(build, name, runs)
        row, ratio = line(name, programs[name], found, wrong)
        table.append(row)
        print(row, flush=True)
        if ratio:
            ratios.append(ratio)
            passed += 1
        for way, why in wrong.items():
            (natively if "native" in wrong else failures).append(name)
            print(f"  {way}: {why}", flush=True)
    with open(f"{build}/apps.md", "w", encoding="utf-8") as f:
        f.write("\n".join(table) + "\n")
    if ratios:
        mean = math.exp(sum(map(math.log, ratios)) / len(ratios))
        print(f"\n{len(ratios)} programs, medians of {runs}: geometric mean of the ratios {mean:.3f}, "
              f"{sum(r < 0.95 for r in ratios)} below 0.95, the least {min(ratios):.2f}")
    for what, names in (("fail under heddle only", failures), ("fail natively", natively)):
        if names:
            print(f"{what}: {' '.join(dict.fromkeys(names))}")
    print(f"apps: {passed} passed, {len(set(failures) | set(natively))} failed in {time.monotonic() - began:.0f} s; "
          f"the table is in {sys.argv[1]}/apps.md")
    sys.exit(1 if failures or natively else 0)


main()
