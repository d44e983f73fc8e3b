#!/usr/bin/env python3
"""What plain pthread programs take natively, under heddle, and as the same in Go: `make bench`.

Usage: run.py BUILD [ROW...]   a ROW is a part of the name of rows or of their program; growth: only that table
       RUNS=n                  so many runs of each instead of five
       MASSIVETHREADS=FILE     its library for LD_PRELOAD, one more peer

A run is a process. Those of a row take turns: natively, under heddle with GOMAXPROCS 1 and 2, the same in Go
where there is a compiler for it, and again. The table gives medians; a ratio above 1 says that heddle is better
than natively, or than the peer with as many Ps; the spread is the range of each one's runs as a part of their
median. BUILD/bench.json has every run, BUILD/bench.svg draws them. A run that fails, does not end in time or
says anything on stderr fails its row, and the exit status is 1; but a peer's failure is only told.

python3-minimal has no json and no statistics."""

import os
import re
import signal
import subprocess
import sys
import time

import chart
from rows import CPUS, LESS, NATIVE_MOST, PROCS, ROWS, SUBJECTS, THREADS, Mode, Row, modes


class Failed(Exception):
    pass


class Bench:
    def __init__(self, build, runs):
        self.build = os.path.abspath(build)
        self.shown = build
        self.runs = runs
        self.failures = 0
        self.slower = {"native": [], "Go": [], "MassiveThreads": []}
        self.results, self.growth = [], []
        self.modes = modes(self.build)
        self.line = "{:<21} {:>7} {:>9}" + " {:>9} {:>7}" * (len(self.modes) - 1) + "  {}"
        self.env = {k: v for k, v in os.environ.items() if k not in ("HEDDLE", "LD_PRELOAD")}
        self.env.pop("GOMAXPROCS", None)

    def command(self, row, mode, build):
        """Its settings and its words: those that run it, or that a reader types to repeat it."""
        words = row.command.format(**mode.words).split()
        settings = mode.settings(build)
        if row.spawner:
            by = ["--by", f"{build}/bench/echo_go"] if mode.kind == "go" else []
            return [], [f"{build}/bench/{words[0]}", *words[1:], *by, *settings]
        if mode.kind == "go":
            return settings, [f"{build}/bench/peer", *words]
        return settings, [f"{build}/bench/{words[0]}", *words[1:]]

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

    def all_runs(self, row, ways):
        """Every way's runs, taking turns: the figures of each by the way's name, units, and who failed with what."""
        values = {m.name: [] for m in ways}
        failed = {}
        units = None
        for _ in range(self.runs):
            for mode in ways:
                if mode.name in failed:
                    continue
                try:
                    figures = self.run(row, mode)
                    values[mode.name].append([v for v, _ in figures])
                    units = [u for _, u in figures]
                except Failed as e:
                    failed[mode.name] = str(e)
        return values, units or ["?"] * len(row.names), failed

    def measure(self, row):
        """All runs of a row: its lines of the table."""
        ways = [m for m in self.modes if row.runs_in(m)]
        values, units, failed = self.all_runs(row, ways)
        for i, name in enumerate(row.names):
            self.report(row, i, units[i], values, failed, name)
        self.tell(row, ways, failed)

    def tell(self, row, ways, failed):
        for mode in ways:
            if mode.name in failed:
                peer = mode.kind in ("go", "myth")
                self.failures += not peer
                print(f"  {'fails' if peer else 'FAILED'} {mode.name}: {failed[mode.name]}")
                print(f"    repeat: {' '.join(sum(self.command(row, mode, self.shown), []))}")
        sys.stdout.flush()

    def report(self, row, i, unit, values, failed, name):
        """A figure of a row: its line, and what bench.json says of it."""
        better = row.better[i]
        result = {"row": name, "program": row.command, "unit": unit, "better": better}
        cells, spreads = [], []
        for mode in self.modes:
            runs = [v[i] for v in values.get(mode.name, [])]
            if mode.name in failed or not runs:
                cells += ["FAILED" if mode.name in failed else "-"] + ["-"] * (mode.kind != "native")
                spreads.append("-")
                if mode.name in failed:
                    result[mode.name] = {"failed": failed[mode.name]}
                continue
            this = summary(runs)
            result[mode.name] = this
            cells.append(number(this["median"]))
            spreads.append(percent(this))
            if mode.kind != "native":
                cells.append(self.compare(name, mode, this, result, better))
        self.results.append(result)
        print(self.line.format(name, unit, *cells, "/".join(spreads)))

    def compare(self, name, mode, this, result, better):
        """heddle with the native runs, a peer with heddle's: the cell of the ratio, above 1 if heddle is better."""
        if mode.kind == "heddle":
            other, own, whom = result.get("native"), this, "native"
        else:
            other, own, whom = this, result.get(mode.against), {"go": "Go", "myth": "MassiveThreads"}[mode.kind]
        if not other or not own or "failed" in other or "failed" in own:
            return "-"
        ratio = ratio_of(other, own, better)
        if ratio is None:
            return "-"
        this["ratio"] = ratio
        self.slower[whom].append((name, mode.against or mode.name, ratio, overlap(other, own)))
        return f"{ratio:.2f}"

    def grow(self):
        """What an operation costs among more and more threads, then on more and more Ps."""
        native, _, two = self.modes[:3]
        go = [m for m in self.modes if m.kind == "go"][1:]
        line = "{:<14} {:>9}" + " {:>9}" * len(THREADS)
        print("\nns an operation, by the number of threads")
        print(line.format("", "", *(f"{n:,}" for n in THREADS)))
        for subject in SUBJECTS:
            columns = [self.cells(subject, [m for m in (native, two, *go) if m is not native or n <= NATIVE_MOST], n)
                       for n in THREADS]
            for i, mode in enumerate((native, two, *go)):
                print(line.format("" if i else subject, mode.name, *(c.get(mode.name, "-") for c in columns)))
        line = "{:<14} {:>9}" + " {:>9}" * len(PROCS)
        print(f"\nns an operation of 1,000 threads, by GOMAXPROCS, on {CPUS} cpus")
        print(line.format("", "", *PROCS))
        for subject in SUBJECTS:
            for kind in ("heddle", "go")[:1 + len(go)]:
                ways = [Mode(f"{kind} {p}", kind, p) for p in PROCS]
                cells = self.cells(subject, ways, 1000)
                print(line.format("" if kind == "go" else subject, kind, *(cells.get(m.name, "-") for m in ways)))

    def cells(self, subject, ways, n):
        row = Row(f"growth {subject} {n}", f"{subject}@{n}", seconds=120)
        values, unit, failed = self.all_runs(row, ways)
        self.tell(row, ways, failed)
        found = {name: summary([v[0] for v in runs]) for name, runs in values.items() if runs and name not in failed}
        self.growth.append({"subject": subject, "threads": n, "unit": unit[0], **found})
        return {name: number(this["median"]) for name, this in found.items()}

    def close(self, seconds):
        for whom, all_ratios in self.slower.items():
            for overlaps, title in (
                (False, f"slower than {whom}:"),
                (True, f"slower than {whom} in the median, but the ranges of the runs overlap:"),
            ):
                rows = {}
                for name, mode, ratio, o in all_ratios:
                    if o == overlaps and ratio < 1:
                        rows.setdefault(name, []).append(f"{mode} {ratio:.2f}")
                if rows:
                    print(f"\n{title}")
                for name, ratios in rows.items():
                    print(f"  {name:<21} {'  '.join(ratios)}")
        print()
        for whom, all_ratios in self.slower.items():
            for procs in ("P=1", "P=2"):
                ratios = [r for _, m, r, _ in all_ratios if m == procs]
                if ratios:
                    print(f"{procs}: not slower than {whom} in {sum(r >= 1 for r in ratios)} of {len(ratios)} figures")
        path = f"{self.build}/bench.json"
        about = {**machine(), "date": time.strftime("%Y-%m-%d"), "runs": self.runs}
        with open(path, "w", encoding="utf-8") as f:
            f.write(json({**about, "rows": self.results, "growth": self.growth}) + "\n")
        with open(f"{self.build}/bench.svg", "w", encoding="utf-8") as f:
            f.write(chart.draw(about, self.results, self.growth))
        print(
            f"bench: {len(self.results)} rows in {seconds:.0f} s, {self.failures} failed; "
            f"every run is in {self.shown}/bench.json, a picture in {self.shown}/bench.svg"
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


def median(values):
    v = sorted(values)
    return (v[(len(v) - 1) // 2] + v[len(v) // 2]) / 2


def summary(runs):
    return {"median": median(runs), "min": min(runs), "max": max(runs), "runs": runs}


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
        if w != "growth" and not any(r.chosen([w]) for r in ROWS):
            sys.exit(f"no row or program is called {w}; there are:\n  "
                     + " ".join(n for r in ROWS for n in r.names) + " growth")
    runs = os.environ.get("RUNS") or "5"
    if not runs.isdigit() or int(runs) < 1:
        sys.exit(f"RUNS={runs} is no number of runs")
    bench = Bench(sys.argv[1], int(runs))
    about = machine()
    print(f"{about['cpus']} cpus ({about['model']}), Linux {about['kernel']}; "
          f"medians of {runs} run{'s' * (runs != '1')}; a ratio above 1: heddle is better\n")
    titles = [t for m in bench.modes[1:] for t in (m.name, "ratio")]
    start = time.monotonic()
    chosen = [r for r in ROWS if r.chosen(words)] if words != ["growth"] else []
    if chosen:
        print(bench.line.format("row", "unit", "native", *titles, "spread %"))
    for row in chosen:
        bench.measure(row)
    if not words or "growth" in words:
        bench.grow()
    bench.close(time.monotonic() - start)
    sys.exit(1 if bench.failures else 0)


main()
