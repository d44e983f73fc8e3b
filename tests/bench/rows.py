"""What `make bench` runs: the ways of running a program, its rows, and what is asked of many threads.

A row is a program of tests/bench and its arguments. One that has a twin in Go (go/peer.go, or go/echo.go for
the server) has `go`."""

import os

CPUS = len(os.sched_getaffinity(0))
LESS, MORE = "less", "more"  # which is better


class Mode:
    """How a program is run; `name` is its column."""

    def __init__(self, name, kind, procs=0, against=None):
        self.name = name
        self.kind = kind  # native, heddle, go, myth
        self.procs = procs
        self.against = against  # a mode of heddle's that is measured by it
        self.words = {  # what a row's command may say
            "cpus": min(procs or 2, CPUS),
            "parked": "10000 or-fewer" if kind == "native" else "100000",
        }

    def settings(self, build):
        if self.kind == "heddle":
            return [f"LD_PRELOAD={build}/libheddle.so", f"GOMAXPROCS={self.procs}"]
        if self.kind == "go":
            return [f"GOMAXPROCS={self.procs}"]
        if self.kind == "myth":
            return [f"LD_PRELOAD={os.environ['MASSIVETHREADS']}", f"MYTH_NUM_WORKERS={self.procs}"]
        return []


def modes(build):
    """Those that this machine has: Go's where its programs were built, MassiveThreads' where the user names it."""
    found = [Mode("native", "native"), Mode("P=1", "heddle", 1), Mode("P=2", "heddle", 2)]
    if os.path.exists(f"{build}/bench/peer"):
        found += [Mode("Go P=1", "go", 1, "P=1"), Mode("Go P=2", "go", 2, "P=2")]
    if os.environ.get("MASSIVETHREADS"):
        found.append(Mode("Myth 2", "myth", 2, "P=2"))
    return found


class Row:
    """A command, and the figures that it prints in this order: names and which is better."""

    def __init__(self, command, *names, better=(LESS,), procs=None, spawner=False, seconds=20, go=False, myth=True,
                 by_name=False):
        self.command = command
        self.names = names or (command.split()[1],)
        self.better = better
        self.procs = procs  # where it means something; None: anywhere
        self.spawner = spawner  # native itself; hands the settings on to what it starts
        self.seconds = seconds  # how long a run may take
        self.go = go
        self.myth = myth and not spawner
        self.by_name = by_name  # only who asks for it gets it

    def chosen(self, words):
        if not words:
            return not self.by_name
        return any(w in n for w in words for n in (self.command.split()[0], *self.names))

    def runs_in(self, mode):
        if mode.kind in ("go", "myth") and not getattr(self, mode.kind):
            return False
        return mode.kind == "native" or self.procs is None or mode.procs in self.procs


def echo_row(name, command, **more):
    names = (f"{name}-{figure}" for figure in ("rate", "cpu", "p99", "threads"))
    return Row(command, *names, better=(MORE, LESS, LESS, LESS), spawner=True, go=True, **more)


def locks(*names):
    return [Row(f"locks {n}-{when}", go=n in ("mutex", "rdlock", "wrlock", "sem") and when == "threaded")
            for n in names for when in ("alone", "threaded")]


ROWS = [
    Row("threads create-join", go=True),
    Row("threads create-join-1000", go=True),
    Row("parked create 10000", "create-parked-10000", go=True),
    Row("threads yield-2", go=True),
    Row("threads yield-100", go=True),
    Row("threads steal", go=True),
    Row("waits pingpong-cond", go=True),
    Row("waits pingpong-sleeper", go=True),
    Row("waits pingpong-broadcast", go=True),
    Row("waits pingpong-sem", go=True),
    Row("waits pingpong-wired"),
    Row("waits pingpong-shared"),
    Row("waits barrier-64 {cpus}", go=True),
    Row("waits queue-4+4", go=True),
    *locks("mutex", "rdlock", "wrlock", "sem", "self", "getspecific"),
    Row("locks mutex-2", go=True),
    Row("locks mutex-64", go=True),
    Row("locks mutex-1000", go=True),
    Row("locks mutex-pi-8"),
    Row("locks rwlock-64", go=True),
    Row("pipes pipe", go=True),
    Row("pipes socketpair", go=True),
    Row("pipes answer", go=True),
    Row("pipes read-zero", go=True),
    Row("pipes zero-left"),
    echo_row("echo-1000", "echo against 1000"),
    echo_row("echo-8000", "echo against 8000"),
    echo_row("echo-10000", "echo against 10000"),
    Row("compute crowd-16", procs=(2,), go=True),
    Row("compute mixed", go=True),
    Row("compute unannounced-8", procs=(2,)),
    Row("compute fairness-8", better=(MORE,), go=True),
    Row("compute lateness", "lateness-median", "lateness-p99", better=(LESS, LESS), go=True),
    Row("parked memory {parked}", "memory-parked", seconds=60, go=True, myth=False),
    Row("process true", spawner=True),
    Row("process first-thread", spawner=True),
    Row("threads fork"),
    Row("process xz", spawner=True),
    # A million; 15 GiB, minutes.
    Row("parked memory 1000000", "memory-million", procs=(1, 2), seconds=600, go=True, myth=False, by_name=True),
]

# What an operation costs among more and more threads, and on more and more Ps. Natively there is no room for more.
SUBJECTS = ("create", "yield", "ring", "mutex", "pipe")
THREADS = (1, 10, 100, 1000, 10000, 100000)
PROCS = (1, 2, 4, 8)
NATIVE_MOST = 10000
