#!/usr/bin/env python3
"""What plain pthread programs take natively and under heddle: `make bench`.

Usage: run.py BUILD [ROW...]   a ROW is a part of the name of rows or of their program
       RUNS=n                  so many runs of each instead of five

A run is a process. Those of a row take turns: natively, GOMAXPROCS=1, GOMAXPROCS=2, and again.
The table gives medians; a ratio above 1 says that heddle is better; the spread is the range of
each three's runs as a part of their median. BUILD/bench.json has every run. A run that fails,
does not end in time or says anything on stderr fails its row, and the exit status is 1.

python3-minimal has no json and no statistics."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time

CPUS = len(os.sched_getaffinity(0))
LESS, MORE = "less", "more"  # which is better


class Mode:
    """How a program is run; `name` is its column."""

    def __init__(self, name, procs):
        self.name = name
        self.procs = procs
        self.words = {  # what a row's command may say
            "cpus": min(procs or 2, CPUS),
            "parked": "100000" if procs else "10000 or-fewer",
            "go": "" if procs else "--by {build}/bench/echo_go",
        }

    def settings(self, build):
        if not self.procs:
            return []
        return [f"LD_PRELOAD={build}/libheddle.so", f"GOMAXPROCS={self.procs}"]


MODES = [Mode("native", 0), Mode("P=1", 1), Mode("P=2", 2)]


class Row:
    """A command, and the figures that it prints in this order: names and which is better."""

    def __init__(self, command, *names, better=(LESS,), procs=(1, 2), spawner=False, seconds=20,
                 needs=None):
        self.command = command
        self.names = names or (command.split()[1],)
        self.better = better
        self.procs = procs  # where it means something
        self.spawner = spawner  # native itself; hands the settings on to what it starts
        self.seconds = seconds  # how long a run may take
        self.needs = needs  # a program without which there is no such row

    def chosen(self, words):
        return not words or any(
            w in n for w in words for n in (self.command.split()[0], *self.names)
        )

    def modes(self):
        return [m for m in MODES if not m.procs or m.procs in self.procs]


def echo_row(name, command, **more):
    names = (f"{name}-{figure}" for figure in ("rate", "cpu", "p99", "threads"))
    return Row(command, *names, better=(MORE, LESS, LESS, LESS), spawner=True, **more)


ROWS = [
    Row("threads create-join"),
    Row("threads create-join-1000"),
    Row("parked create 10000", "create-parked-10000"),
    Row("threads yield-2"),
    Row("threads yield-100"),
    Row("waits pingpong-cond"),
    Row("waits pingpong-sem"),
    Row("waits barrier-64 {cpus}"),
    Row("waits queue-4+4"),
    Row("locks mutex-alone"),
    Row("locks mutex-threaded"),
    Row("locks rdlock-alone"),
    Row("locks rdlock-threaded"),
    Row("locks wrlock-alone"),
    Row("locks wrlock-threaded"),
    Row("locks sem-alone"),
    Row("locks sem-threaded"),
    Row("locks self-alone"),
    Row("locks self-threaded"),
    Row("locks getspecific-alone"),
    Row("locks getspecific-threaded"),
    Row("locks mutex-2"),
    Row("locks mutex-64"),
    Row("locks mutex-1000"),
    Row("locks rwlock-64"),
    Row("pipes pipe"),
    Row("pipes socketpair"),
    Row("pipes read-zero"),
    echo_row("echo-1000", "echo against 1000"),
    echo_row("echo-8000", "echo against 8000"),
    # There the column of the native figures is Go's, with a P for each cpu.
    echo_row("echo-1000-go", "echo against 1000 {go}", needs="go"),
    echo_row("echo-8000-go", "echo against 8000 {go}", needs="go"),
    Row("compute crowd-16", procs=(2,)),
    Row("compute fairness-8", better=(MORE,)),
    Row("compute lateness", "lateness-median", "lateness-p99", better=(LESS, LESS)),
    Row("parked memory {parked}", "memory-parked", seconds=60),
    Row("process true", spawner=True),
    Row("process xz", spawner=True),
]


class Failed(Exception):
    pass


class Bench:
    def __init__(self, build, runs):
        self.build = os.path.abspath(build)
        self.shown = build
        self.runs = runs
        self.failures = 0
        self.slower = []
        self.results = []
        self.env = {k: v for k, v in os.environ.items() if k not in ("HEDDLE", "LD_PRELOAD")}
        self.env.pop("GOMAXPROCS", None)

    def command(self, row, mode, build):
        """Its settings and its words: those that run it, or that a reader types to repeat it."""
        words = row.command.format(**mode.words).format(build=build).split()
        words[0] = f"{build}/bench/{words[0]}"
        settings = mode.settings(build)
        return ([], words + settings) if row.spawner else (settings, words)

    def run(self, row, mode):
        """One run: its figures, each a value and a unit."""
        settings, words = self.command(row, mode, self.build)
        env = dict(self.env, **dict(s.split("=", 1) for s in settings))
        child = subprocess.Popen(
            words,
            env=env,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,
        )
        try:
            out, err = child.communicate(timeout=row.seconds)
        except subprocess.TimeoutExpired:
            said = text_of(end_group(child))
            raise Failed(f"not at its end after {row.seconds} s; {said}") from None
        except KeyboardInterrupt:
            end_group(child)
            raise
        said = text_of(err)
        if child.returncode < 0:
            raise Failed(f"killed by signal {-child.returncode}; {said}")
        if child.returncode:
            raise Failed(f"exit status {child.returncode}: {said}")
        if said:
            raise Failed(f"says: {said}")
        figures = re.findall(r"^(-?[\d.e+-]+) (\S+)$", out.decode(), re.MULTILINE)
        if len(figures) != len(row.names):
            raise Failed(f"prints {out.decode()!r}")
        return [(float(v), unit) for v, unit in figures]

    def measure(self, row):
        """All runs of a row: its lines of the table."""
        values = {m.name: [] for m in row.modes()}
        failed = {}
        units = None
        for _ in range(self.runs):
            for mode in row.modes():
                if mode.name in failed:
                    continue
                try:
                    figures = self.run(row, mode)
                    values[mode.name].append([v for v, _ in figures])
                    units = [u for _, u in figures]
                except Failed as e:
                    failed[mode.name] = str(e)
        for i, name in enumerate(row.names):
            self.report(row, i, (units or ["?"] * len(row.names))[i], values, failed, name)
        for mode in row.modes():
            if mode.name in failed:
                self.failures += 1
                print(f"  FAILED {mode.name}: {failed[mode.name]}")
                print(f"    repeat: {' '.join(sum(self.command(row, mode, self.shown), []))}")
        sys.stdout.flush()

    def report(self, row, i, unit, values, failed, name):
        """A figure of a row: its line, and what bench.json says of it."""
        better = row.better[i]
        result = {"row": name, "program": row.command, "unit": unit, "better": better}
        cells, spreads = [], []
        native = None
        for mode in MODES:
            runs = [v[i] for v in values.get(mode.name, [])]
            if mode.name in failed or not runs:
                cells += ["FAILED" if mode.name in failed else "-"] + ["-"] * bool(mode.procs)
                spreads.append("-")
                if mode.name in failed:
                    result[mode.name] = {"failed": failed[mode.name]}
                continue
            this = {"median": median(runs), "min": min(runs), "max": max(runs), "runs": runs}
            result[mode.name] = this
            cells.append(number(this["median"]))
            spreads.append(percent(this))
            if not mode.procs:
                native = this
                continue
            ratio = ratio_of(native, this, better)
            this["ratio"] = ratio
            cells.append("-" if ratio is None else f"{ratio:.2f}")
            if ratio is not None and ratio < 1:
                self.slower.append((name, mode.name, ratio, overlap(native, this)))
        self.results.append(result)
        print(LINE.format(name, unit, *cells, "/".join(spreads)))

    def close(self, seconds):
        for overlaps, title in (
            (False, "slower than native:"),
            (True, "slower in the median, but the ranges of the runs overlap:"),
        ):
            rows = {}
            for name, mode, ratio, o in self.slower:
                if o == overlaps:
                    rows.setdefault(name, []).append(f"{mode} {ratio:.2f}")
            if rows:
                print(f"\n{title}")
            for name, ratios in rows.items():
                print(f"  {name:<21} {'  '.join(ratios)}")
        path = f"{self.build}/bench.json"
        with open(path, "w", encoding="utf-8") as f:
            f.write(json({**machine(), "runs": self.runs, "rows": self.results}) + "\n")
        print(
            f"\nbench: {len(self.results)} rows in {seconds:.0f} s, {self.failures} failed; "
            f"every run is in {self.shown}/bench.json"
        )


def end_group(child):
    """Ends a program with whatever it started; gives what it said on stderr."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    return child.communicate()[1]


def text_of(err):
    return err.decode(errors="replace").strip().replace("\n", "; ")


LINE = "{:<21} {:>7} {:>9} {:>9} {:>7} {:>9} {:>7}  {}"


def median(values):
    v = sorted(values)
    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2


def number(v):
    """Three significant digits, none of them dropped before the point."""
    digits = 0 if abs(v) >= 100 else 1 if abs(v) >= 10 else 2
    return f"{v:,.{digits}f}"


def percent(this):
    if this["median"] <= 0:
        return "-"
    return f"{(this['max'] - this['min']) / this['median'] * 100:.0f}"


def ratio_of(native, this, better):
    """None where noise has swallowed a figure."""
    if native is None or native["median"] <= 0 or this["median"] <= 0:
        return None
    ratio = native["median"] / this["median"]
    return ratio if better == LESS else 1 / ratio


def overlap(a, b):
    return a["min"] <= b["max"] and b["min"] <= a["max"]


def machine():
    model = "unknown"
    with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as f:
        for line in f:
            if line.startswith("model name"):
                model = line.split(":", 1)[1].strip()
                break
    return {"cpus": CPUS, "model": model, "kernel": os.uname().release}


def json(v, indent="\n"):
    if isinstance(v, dict):
        inner = indent + "  "
        pairs = [f"{inner}{json(k)}: {json(x, inner)}" for k, x in v.items()]
        return "{" + ",".join(pairs) + indent + "}"
    if isinstance(v, list):
        flat = all(isinstance(x, (int, float)) for x in v)
        inner = " " if flat else indent + "  "
        text = ("," + inner).join(json(x, inner) for x in v)
        return f"[{text}]" if flat or not v else f"[{inner}{text}{indent}]"
    if isinstance(v, str):
        return '"' + re.sub(r'[\x00-\x1f"\\]', lambda m: f"\\u{ord(m[0]):04x}", v) + '"'
    return "null" if v is None else repr(v)


def main():
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    words = sys.argv[2:]
    for w in words:
        if not any(r.chosen([w]) for r in ROWS):
            sys.exit(f"no row or program is called {w}; there are:\n  "
                     + " ".join(n for r in ROWS for n in r.names))
    runs = os.environ.get("RUNS") or "5"
    if not runs.isdigit() or int(runs) < 1:
        sys.exit(f"RUNS={runs} is no number of runs")
    bench = Bench(sys.argv[1], int(runs))
    about = machine()
    print(f"{about['cpus']} cpus ({about['model']}), Linux {about['kernel']}; "
          f"medians of {runs} run{'s' * (runs != '1')}; a ratio above 1: heddle is better\n")
    print(LINE.format("row", "unit", "native", "P=1", "ratio", "P=2", "ratio", "spread %"))
    start = time.monotonic()
    for row in ROWS:
        if row.chosen(words) and (not row.needs or shutil.which(row.needs)):
            bench.measure(row)
    bench.close(time.monotonic() - start)
    sys.exit(1 if bench.failures else 0)


main()
