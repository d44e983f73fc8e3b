#!/usr/bin/env python3
"""What it costs to be looked at: `make bench-cost`.

Usage: cost.py BUILD [WORD...]   a WORD is a part of the name of what is measured, or of a row
       PAIRS=n                   so many times without and with, in turns, instead of ten

A program switches between threads all the time, and is measured again and again in short pieces. What can
be begun and ended while it runs (a trace, a top) comes and goes beside one process; else two processes take
turns. A pair gives the ratio of the medians of its two halves: by the clock, and by the cpu's time of the
whole process, which is less in the hands of who else runs on the machine. The table has the median of these
ratios in percent above 1 (below 0: noise) and the range in which the middle half of the pairs lies."""

import os
import resource
import signal
import subprocess
import sys
import tempfile
import time

ROWS = ["threads yield-2", "threads yield-100", "waits pingpong-sem"]
PIECES = 12  # of a half, after one that is not counted


class Program:
    def __init__(self, build, row, procs, library="libheddle.so", **settings):
        words = row.split()
        env = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE")}
        env |= {"LD_PRELOAD": f"{build}/{library}", "GOMAXPROCS": str(procs), "BENCH_ON": "1"} | settings
        self.child = subprocess.Popen([f"{build}/bench/{words[0]}", *words[1:]], env=env,
                                      stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True)
        self.pid = str(self.child.pid)
        self.piece()

    def piece(self):
        line = self.child.stdout.readline()
        if not line:
            sys.exit(f"{self.child.args[0]}: status {self.child.wait()}")
        return [float(word) for word in line.split()]

    def half(self, pieces=PIECES):
        """Medians by the clock and by the cpu's time."""
        self.piece()
        return [median(v) for v in zip(*(self.piece() for _ in range(pieces)))]

    def end(self):
        self.child.kill()
        self.child.stdout.close()
        self.child.wait()


def median(values):
    v = sorted(values)
    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2


def beside(build, row, procs, pairs, begin, end):
    """One process, with something beside it half of the time."""
    program = Program(build, row, procs)
    try:
        for i in range(pairs):
            without = program.half() if i % 2 == 0 else None
            token = begin(build, program.pid)
            held = program.half()
            end(build, program.pid, token)
            yield without or program.half(), held
    finally:
        program.end()


def turns(build, row, procs, pairs, without, held):
    """A process of each kind after the other."""
    for i in range(pairs):
        halves = []
        for kind in (without, held) if i % 2 == 0 else (held, without):
            program = Program(build, row, procs, **kind)
            halves.append(program.half())
            program.end()
        yield halves if i % 2 == 0 else halves[::-1]


def trace_begins(build, pid):
    name = tempfile.mktemp(prefix="heddle-cost-", suffix=".json")
    subprocess.run([f"{build}/heddle", "ctl", pid, f"trace={name}"], check=True, stdout=subprocess.DEVNULL)
    return name


def trace_ends(build, pid, name):
    subprocess.run([f"{build}/heddle", "ctl", pid, "trace=off"], check=True, stdout=subprocess.DEVNULL)
    os.unlink(name)


tops = {"cpu": 0.0, "time": 0.0}


def top_begins(build, pid):
    top = subprocess.Popen([f"{build}/heddle", "top", "--delay", "1000", "--count", "100000", pid],
                           stdout=subprocess.DEVNULL)
    return top, time.monotonic(), resource.getrusage(resource.RUSAGE_CHILDREN)


def top_ends(_, __, token):
    top, begun, before = token
    top.send_signal(signal.SIGINT)
    top.wait()
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    tops["cpu"] += after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    tops["time"] += time.monotonic() - begun


WHATS = {
    "trace": ("a trace being written", lambda *a: beside(*a, trace_begins, trace_ends)),
    "top": ("heddle top attached, each second", lambda *a: beside(*a, top_begins, top_ends)),
    "stats": ("--stats", lambda *a: turns(*a, {}, {"HEDDLE_STATS": "1"})),
    "counters": ("counters and trace points, off", lambda *a: turns(*a, {"library": "notrace/libheddle.so"}, {})),
    "policies": ("policies and switches, at go", lambda *a: turns(*a, {"library": "unpoliced/libheddle.so"}, {})),
}


def percent(pairs, which):
    """The median of the ratios, and the middle half of them."""
    ratios = sorted(100 * (held[which] / without[which] - 1) for without, held in pairs)
    n = len(ratios)
    return f"{median(ratios):6.1f} ({ratios[n // 4]:.1f} to {ratios[n - 1 - n // 4]:.1f})"


def chosen(names, words):
    """Those that a word names; all, if none does."""
    return [n for n in names if any(w in n for w in words)] or list(names)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    build = os.path.abspath(sys.argv[1])
    pairs = int(os.environ.get("PAIRS") or 10)
    whats, rows = chosen(WHATS, sys.argv[2:]), chosen(ROWS, sys.argv[2:])
    for word in sys.argv[2:]:
        if not any(word in name for name in [*WHATS, *ROWS]):
            sys.exit(f"nothing is called {word}; there are: {', '.join([*WHATS, *ROWS])}")
    line = "{:<34} {:<13} {:>3}  {:<24} {}"
    print(f"{pairs} pairs each, {len(os.sched_getaffinity(0))} cpus\n")
    print(line.format("costs", "row", "P", "% by the clock", "% by the cpu's time"))
    for what in whats:
        title, measure = WHATS[what]
        for row in rows:
            for procs in (1, 2):
                found = list(measure(build, row, procs, pairs))
                print(line.format(title, row.split()[1], procs, percent(found, 0), percent(found, 1)), flush=True)
    if tops["time"]:
        print(f"\nheddle top itself took {100 * tops['cpu'] / tops['time']:.2f} % of a cpu")


main()
