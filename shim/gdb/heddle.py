"""Gs in gdb: `info gs` lists them, `g N COMMAND` runs a command on one, `g all COMMAND` on each,
`heddle-gcore FILE` is gcore.

Load it with `gdb -x heddle.py`, or `source` it; on a process that runs, is stopped, or has left a
core file. It needs the debug information of libheddle.so, and writes nothing to the process.

A G on an M is shown by the M's thread, unless that is just about to go to it, or has just left it,
and stands on another stack. For such a one, and one that is on no M, some thread is lent: an unwinder
makes the registers that were saved for the G those of that thread's caller, and a frame filter
hides what is the thread's own. So the first frame of a G has the number 1, or of one that was
preempted 2, and is found in a core file, too, where no register can be set. `info threads` and
what else knows only threads goes on to speak of the thread that is lent. In a core file gdb lists
Gs among the threads, too, by glibc's word, but has no registers for those.

`next` and `finish` of gdb's wait for the kernel thread on which they began, and a G that waits may
go on with another: past a call that waits, `tbreak` and `continue`, which are for any thread.
"""
import itertools
import os
import struct

import gdb
import gdb.unwinder

GCLAIM = 0x1000
PAGE = 4096
CHUNK = 1 << 20
PT_LOAD = 1


def clean(text):
    return "".join(c if c.isprintable() else "?" for c in text)


class Heddle:
    """What libheddle.so says of itself: its variables, types and the rows of core/view.h."""

    def __init__(self):
        for objfile in gdb.objfiles():
            symbol = objfile.lookup_global_symbol("sched")
            if symbol and symbol.type.tag == "sched" and objfile.lookup_global_symbol("view_page"):
                break
        else:
            raise gdb.GdbError("There is no libheddle.so with debug information here.")
        self.objfile = objfile
        self.sched = symbol.value()
        self.thread = self.type_beside("thread_first", "struct thread").pointer()
        self.rows = {}
        for function in "view_page", "thread_rows":
            for row in self.rows_beside(function):
                self.rows.setdefault(row["of"].string(), []).append(
                    (row["name"].string(), int(row["at"])))

    def block_of(self, function):
        return self.objfile.lookup_global_symbol(function).symtab.static_block()

    def type_beside(self, function, name):
        return gdb.lookup_type(name, self.block_of(function))

    def rows_beside(self, function):
        rows = next(s for s in self.block_of(function) if s.name == "rows").value()
        lo, hi = rows.type.range()
        return (rows[i] for i in range(lo, hi + 1))

    def name(self, of, number):
        return next((name for name, n in self.rows[of] if n == number), str(number))

    def number(self, of, name):
        return dict(self.rows[of])[name]

    def gs(self):
        """The program's Gs that live, by number."""
        found, at = [], self.sched["allg"]
        while at:
            g = G(self, at.dereference())
            if g.state not in ("idle", "dead") and g.thread and not g.thread["own"]:
                found.append(g)
            at = at["alllink"]
        return sorted(found, key=lambda g: g.id)


class G:
    def __init__(self, heddle, value):
        self.heddle = heddle
        self.value = value
        self.id = int(value["goid"])
        self.state = heddle.name("gstatus", int(value["status"]) & ~GCLAIM)
        self.thread = value["head"]["host"].cast(heddle.thread)

    def label(self):
        if self.thread["main"]:
            return "main"
        if not self.thread["named"]:
            return ""
        return '"%s"' % clean(self.thread["name"].string(errors="replace"))

    def lwp(self):
        """gdb's thread of the M that it is on, or None."""
        tid = int(self.value["m"]["tid"])
        return next((t for t in gdb.selected_inferior().threads() if t.ptid[1] == tid), None)

    def waits_for(self, gs):
        reason = self.heddle.name("waitreason", int(self.value["waitreason"]))
        on = int(self.value["waiton"])
        if reason in ("read", "write"):
            fd = on & 0xffffffff
            return "%s fd %d" % (reason, fd) if fd < 1 << 31 else "any of several descriptors"
        if reason != "futex":
            return reason
        for g in gs:
            if self.thread["joins"] == g.thread:
                return "joins G %d" % g.id
        owner = self.mutex_owner(on)
        for g in gs:
            if owner and int(g.thread["tid"]) == owner:
                return "mutex 0x%x, held by G %d" % (on, g.id)
        return "futex 0x%x" % on

    def mutex_owner(self, at):
        """The tid beside the word that is waited on, if that may be a locked mutex."""
        word = gdb.lookup_type("int").pointer()
        try:
            locked = int(gdb.Value(at).cast(word).dereference())
            beside = at + self.heddle.number("mutex", "owner")
            return int(gdb.Value(beside).cast(word).dereference()) if 0 < locked <= 3 else 0
        except gdb.MemoryError:
            return 0

    def holds(self, sp, stack=None):
        stack = stack or self.value["stack"]
        return int(stack["lo"]) <= sp < int(stack["hi"])

    def stands(self, gs):
        """Whether its M, whose thread is selected, is on its stack, or on one of the program's own
        making, of which nothing is known."""
        sp = place_of(gdb.newest_frame())[0]
        if self.holds(sp):
            return True
        return not (self.holds(sp, self.value["m"]["g0"]["stack"]) or any(g.holds(sp) for g in gs))

    def describe(self, gs):
        text = self.state
        if self.state == "waiting":
            text += ": " + self.waits_for(gs)
        if self.value["frame"] and self.state != "preempted":
            text += ", preempted"
        if self.value["m"]:
            text += ", on M %d" % int(self.value["m"]["id"])
            thread = self.lwp()
            if thread:
                text += ", thread %d" % thread.num
        if self.value["lockedm"]:
            text += ", wired to M %d" % int(self.value["lockedm"]["id"])
        return text

    def saved(self):
        """The registers of one that is on no M, by name. Of a preempted one those of the end of
        its signal frame, from where gdb finds its way by itself."""
        if self.value["frame"]:
            end = self.heddle.objfile.lookup_global_symbol("arch_sigrestorer").value().address
            return {"rip": int(end), "rsp": int(self.value["frame"]["uc"])}
        sp = int(self.value["sched"]["sp"])
        word = gdb.lookup_type("unsigned long").pointer()
        registers = {"rsp": sp + self.heddle.number("context", "")}
        for name, at in self.heddle.rows["context"]:
            if name:
                registers[name] = int(gdb.Value(sp + at).cast(word).dereference())
        return registers


class Lender(gdb.unwinder.Unwinder):
    """While `registers` are set: the caller of the thread that stands at `place` has those."""

    def __init__(self):
        super().__init__("heddle")
        self.registers = None
        self.place = None

    def __call__(self, frame):
        if not self.registers or place_of(frame) != self.place:
            return None
        word = gdb.lookup_type("unsigned long")
        values = {n: gdb.Value(v).cast(word) for n, v in self.registers.items()}
        # gdb wants the stacks of callers to be no lower.
        info = frame.create_unwind_info(Id(values["rsp"], gdb.Value(self.place[1]).cast(word)))
        for name, value in values.items():
            info.add_saved_register(name, value)
        return info


class Id:
    def __init__(self, sp, pc):
        self.sp = sp
        self.pc = pc


class Hider:
    """Leaves out so many of the youngest frames."""

    def __init__(self):
        self.name = "heddle"
        self.priority = 1000
        self.enabled = False
        self.hidden = 0
        gdb.frame_filters[self.name] = self

    def filter(self, frames):
        return itertools.islice(frames, self.hidden, None)


def place_of(frame):
    return tuple(int(frame.read_register(r)) & (1 << 64) - 1 for r in ("rsp", "rip"))


lender = Lender()
hider = Hider()
gdb.unwinder.register_unwinder(None, lender, replace=True)


def lend(g, command):
    """Runs the command on the selected thread, as if the G had called it."""
    lender.place = place_of(gdb.newest_frame())
    lender.registers = g.saved()
    gdb.invalidate_cached_frames()
    try:
        frame, hidden = gdb.newest_frame(), 0
        # Of inlined functions there are several frames at one place.
        while frame and place_of(frame) == lender.place:
            frame, hidden = frame.older(), hidden + 1
        if frame and frame.type() == gdb.SIGTRAMP_FRAME and g.value["frame"]:
            frame, hidden = frame.older(), hidden + 1
        if not frame:
            raise gdb.GdbError("The stack of G %d cannot be read." % g.id)
        frame.select()
        hider.hidden, hider.enabled = hidden, True
        gdb.execute(command)
    finally:
        hider.enabled = False
        lender.registers = None
        gdb.invalidate_cached_frames()


def run_on(g, gs, command):
    if g.value["m"]:
        thread = g.lwp()
        if not thread:
            raise gdb.GdbError("The thread of G %d is not here." % g.id)
        thread.switch()
        if g.stands(gs):
            gdb.execute(command)
            return
    lend(g, command)


def keeping_place(what):
    """Calls what, and has the selected thread and frame as they were after it."""
    thread, level = gdb.selected_thread(), gdb.selected_frame().level()
    try:
        what()
    finally:
        thread.switch()
        gdb.execute("frame level %d" % level, to_string=True)


class InfoGs(gdb.Command):
    """List the program's threads, which are Gs of heddle: number, name, tid and state."""

    def __init__(self):
        super().__init__("info gs", gdb.COMMAND_STATUS)

    def invoke(self, argument, from_tty):
        gs = Heddle().gs()
        here = gdb.selected_thread()
        width = max([len(g.label()) for g in gs] + [4])
        print("  %-6s %-*s %-8s %s" % ("G", width, "Name", "Tid", "State"))
        for g in gs:
            mark = "*" if g.value["m"] and here and g.lwp() == here else " "
            print("%s %-6d %-*s %-8d %s" % (mark, g.id, width, g.label(), int(g.thread["tid"]),
                                            g.describe(gs)))


class OnG(gdb.Command):
    """Run a command on a G: g N COMMAND, or on every one: g all COMMAND.
The first frame of one that is on no M has the number 1."""

    def __init__(self):
        super().__init__("g", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        which, _, command = argument.strip().partition(" ")
        command = command.strip()
        if not command or not (which == "all" or which.isdecimal()):
            raise gdb.GdbError("g N COMMAND, or g all COMMAND; the numbers are those of info gs.")
        gs = Heddle().gs()
        chosen = gs if which == "all" else [g for g in gs if g.id == int(which)]
        if not chosen:
            raise gdb.GdbError("There is no G %s." % which)
        keeping_place(lambda: self.each(chosen, gs, command, which == "all"))

    @staticmethod
    def each(chosen, gs, command, go_on):
        for g in chosen:
            print("\nG %d %s tid %d: %s" % (g.id, g.label(), int(g.thread["tid"]), g.describe(gs)))
            try:
                run_on(g, gs, command)
            except gdb.error as error:
                if not go_on:
                    raise
                print(error)


class Core:
    """A core file of gdb's, which lacks what follows the first page of a mapping that cannot be
    read. The guards of stacks are such pages, and many stacks are in one mapping."""

    def __init__(self, file):
        self.file = file
        self.memory = gdb.selected_inferior()

    def segments(self):
        """Offset, address and size of each."""
        head = self.file.read(64)
        table = struct.unpack_from("<Q", head, 32)[0]
        size, n = struct.unpack_from("<HH", head, 54)
        for i in range(n):
            self.file.seek(table + i * size)
            kind, _, offset, at, _, length = struct.unpack("<IIQQQQ", self.file.read(40))
            if kind == PT_LOAD:
                yield offset, at, length

    def read(self, at, size):
        try:
            return self.memory.read_memory(at, size).tobytes()
        except gdb.MemoryError:
            return None

    def mend(self):
        for offset, at, length in self.segments():
            whole = True
            for start in range(0, length, CHUNK):
                size = min(CHUNK, length - start)
                data = self.read(at + start, size)
                if data is None:
                    whole = False
                    for page in range(start, start + size, PAGE):
                        self.write(offset + page, self.read(at + page, PAGE))
                elif not whole:
                    self.write(offset + start, data)

    def write(self, offset, data):
        if data:
            self.file.seek(offset)
            self.file.write(data)


class HeddleGcore(gdb.Command):
    """As gcore, but with the stacks of all Gs, which gcore leaves out from Linux 6.13 on."""

    def __init__(self):
        super().__init__("heddle-gcore", gdb.COMMAND_FILES, gdb.COMPLETE_FILENAME)

    def invoke(self, argument, from_tty):
        path = os.path.expanduser(argument.strip() or "core.%d" % gdb.selected_inferior().pid)
        gdb.execute("gcore " + path)
        with open(path, "r+b") as file:
            Core(file).mend()


InfoGs()
OnG()
HeddleGcore()
