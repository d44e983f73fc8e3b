# Reads a trace in full, as strictly as JSON is meant, and checks that it is one; what it finds is said as
# name=number, one a line. With --killed the array may lack its end, as the format allows. With --busy the process
# ended while threads of it ran: the scheduler's totals are of a moment later.
import bisect, collections, json, sys

def ns(us):
    return round(us * 1000)

def load(path, killed):
    """All of it; and whether it breaks off: a kill may come in the midst of a write, with what was written before behind it."""
    text = open(path).read()
    try:
        return json.loads(text), False
    except ValueError:
        if not killed:
            raise
    assert text.startswith("[\n")
    whole = []
    for line in text[2:].split("\n"):
        try:
            whole.append(json.loads(line.removesuffix(",")))
        except ValueError:
            break
    return whole, True

killed, busy = (sys.argv[1] == how for how in ("--killed", "--busy"))
events, broken = load(sys.argv[-1], killed)
if broken and events and (events[-1]["ph"] == "s" or events[-1]["ph"] == "X" and events[-1]["pid"] == 1):
    # The other half of what was put last is missing.
    events.pop()
totals = {}
tracks, names, starts, ends = collections.defaultdict(list), {}, {}, {}
found = collections.Counter()

for e in events:
    assert e["pid"] in (1, 2), e
    kind = e["ph"]
    if kind == "M":
        if e["name"] == "heddle":
            totals = e["args"]
        elif e["name"] == "thread_name":
            names[e["pid"], e["tid"]] = e["args"]["name"]
        continue
    assert e["ts"] >= 0 and isinstance(e["tid"], int), e
    if kind == "X":
        assert e["dur"] >= 0, e
        tracks[e["pid"], e["tid"]].append((ns(e["ts"]), ns(e["ts"]) + ns(e["dur"]), e))
    elif kind in "sf":
        of = starts if kind == "s" else ends
        assert e["id"] not in of, e
        of[e["id"]] = (e["tid"], ns(e["ts"]))
    else:
        assert kind == "i", e
        if e.get("cat") == "lost":
            found["lost_said"] += e["args"]["lost"]

assert totals or killed, "the totals are missing"
# On one track one thing at a time; each P and each G has one name; each run is on its G's track, too.
for key, slices in tracks.items():
    slices.sort(key=lambda s: s[:2])
    assert key in names or killed, key
    for before, after in zip(slices, slices[1:]):
        assert before[1] <= after[0], (key, before, after)
runs = collections.Counter()
for (process, track), slices in tracks.items():
    for begin, end, e in slices:
        if process == 1:
            runs[e["args"]["g"], begin, end] += 1
            found["runs"] += not e["args"].get("back")
            found["exits"] += e["args"].get("end") == "exit"
        else:
            if e["name"] == "running":
                runs[track, begin, end] -= 1
            found["waits"] += e.get("cat") == "wait"
            found["wait_" + e["name"].replace(" ", "_")] += 1
            found["open"] += bool(e["args"].get("open"))
assert not any(runs.values()), [r for r in runs.items() if r[1]][:5]
assert starts.keys() == ends.keys()
for i, (track, when) in starts.items():
    assert when <= ends[i][1], i
    track, when = ends[i]
    at = bisect.bisect_right(tracks[1, track], when, key=lambda s: s[0])
    assert at > 0 and when <= tracks[1, track][at - 1][1] or totals.get("lost") or killed, i

found["arrows"] = len(starts)
found["gs"] = sum(1 for process, _ in names if process == 2)
found["named"] = sum(1 for (process, _), name in names.items() if process == 2 and name.count(" ") > 1)
if totals:
    assert found["lost_said"] == totals["lost"], (found, totals)
    if totals["lost"] == 0 and totals["whole"] and not totals["cut"] and not killed and not busy:
        assert totals["unsure"] == 0, totals
        assert found["runs"] == totals["switches"], (found, totals)
        assert found["exits"] == totals["finished"], (found, totals)
        assert found["waits"] == totals["parks"], (found, totals)
        assert found["gs"] == totals["created"], (found, totals)
for name in sorted(found):
    print(f"{name}={found[name]}")
for name in ("lost", "unsure", "whole", "cut", "procs", "switches", "parks"):
    if totals:
        print(f"total_{name}={totals[name]}")
