# The stacks of two runs of a program, told by two who do not know each other. In gdb (gdb -p PID -x chains.py) it says a
# line for each thread, the functions of the modules in $MODULE that it is in, "?" for one without a name. Else,
# chains.py DUMP GDB NAME: the threads that are below NAME (or all) have the same frames in what `heddle dump` printed and
# in what gdb said. Compared are depths, and names wherever both know one. Says how many threads those were.
import collections, os, re, sys

def in_gdb(gdb):
    gdb.execute("set print demangle off")
    for thread in gdb.selected_inferior().threads():
        thread.switch()
        frame, names = gdb.newest_frame(), []
        while frame is not None:
            where = gdb.solib_name(frame.pc()) or gdb.current_progspace().filename
            # Of what the compiler put into another function there is no frame, only a tale.
            if frame.type() != gdb.INLINE_FRAME and re.search(os.environ["MODULE"], os.path.basename(where)):
                symbol = gdb.execute(f"info symbol {frame.pc() - 1}", to_string=True).split()
                names.append(symbol[0] if symbol[0] != "No" else "?")
            frame = frame.older()
        print("chain", *names)

def of_dump(text):
    for entry in re.findall(r"(?:^.+\n)*(?:^    .+\n)+", text, re.M):
        names = [m[1] for m in re.finditer(r"^    (?:(\S+)\+)?0x[0-9a-f]+ +(\S+)$", entry, re.M)
                 if re.search(os.environ["MODULE"], m[2])]
        times = re.search(r"^(\d+) threads: ", entry, re.M)
        for _ in range(int(times[1]) if times else 1):
            yield tuple(n or "?" for n in names)

def compare(dump, said, name):
    ours = list(of_dump(open(dump).read()))
    theirs = [tuple(line.split()[1:]) for line in open(said) if line.startswith("chain")]
    known = {n for c in ours for n in c} & {n for c in theirs for n in c}
    def counted(chains):
        return collections.Counter(tuple(n if n in known else "?" for n in c) for c in chains if not name or name in c)
    assert counted(ours) == counted(theirs), (counted(ours) - counted(theirs), counted(theirs) - counted(ours))
    print(sum(counted(ours).values()), max(map(len, counted(ours))))

try:
    import gdb
except ImportError:
    compare(sys.argv[1], sys.argv[2], sys.argv[3] if len(sys.argv) > 3 else "")
else:
    in_gdb(gdb)
