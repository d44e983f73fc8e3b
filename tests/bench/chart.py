"""One picture of `make bench`: how much better heddle is than natively and than Go, and how costs grow."""

import math

ROW, LEFT, SCALE = 17, 170, 80  # heights in pixels, the names' room, pixels for a factor of ten
COLOURS = {"native": "#8a8f98", "heddle": "#1f6fb2", "go": "#d9822b"}
PANEL = (250, 150)


def text(x, y, what, anchor="start", size=11, fill="#222"):
    return f'<text x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}" fill="{fill}">{what}</text>'


def rect(x, y, width, height, fill):
    return f'<rect x="{x:.1f}" y="{y:.1f}" width="{width:.1f}" height="{height:.1f}" fill="{fill}"/>'


def line(x1, y1, x2, y2, stroke="#ccc"):
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}"/>'


def ratios(row):
    """Of two Ps where there are two: against the native run, against Go."""
    own = "P=2" if "ratio" in row.get("P=2", {}) else "P=1"
    return row.get(own, {}).get("ratio"), row.get(f"Go {own}", {}).get("ratio")


def bars(rows, top):
    """A bar to the right of 1 is as much better; of two bars the upper one is against the native run."""
    shown = [(r["row"], *ratios(r)) for r in rows]
    shown = [s for s in shown if s[1] or s[2]]
    least = min([0.1, *(v for _, a, b in shown for v in (a, b) if v)])
    most = max([10, *(v for _, a, b in shown for v in (a, b) if v)])
    low, high = math.floor(math.log10(least)), math.ceil(math.log10(most))
    one = LEFT - low * SCALE
    out, bottom = [], top + ROW * len(shown)
    for e in range(low, high + 1):
        x = one + e * SCALE
        out += [line(x, top, x, bottom, "#222" if e == 0 else "#ccc"), text(x, top - 5, f"{10.0 ** e:g}×", "middle", 10)]
    for i, (name, *values) in enumerate(shown):
        y = top + ROW * i
        out.append(text(LEFT - 8, y + 12, name, "end"))
        for k, (value, colour) in enumerate(zip(values, (COLOURS["native"], COLOURS["go"]))):
            if value:
                x = one + math.log10(value) * SCALE
                out.append(rect(min(x, one), y + 2 + 6 * k, abs(x - one), 6, colour))
    return out, bottom, one + high * SCALE


def panel(subject, points, x, y):
    """Costs by threads, both by powers of ten."""
    width, height = PANEL
    costs = [p[m]["median"] for p in points for m in ("native", "P=2", "Go P=2") if m in p]
    if not costs:
        return []
    low, high = math.floor(math.log10(min(costs))), math.ceil(math.log10(max(costs)))
    last = math.log10(max(p["threads"] for p in points)) or 1
    out = [text(x, y - 8, f"{subject}, ns", size=12)]
    for e in range(low, high + 1):
        at = y + height * (1 - (e - low) / max(high - low, 1))
        out += [line(x, at, x + width, at), text(x - 4, at + 4, f"{10 ** e:,}" if e >= 0 else f"{10.0 ** e:g}", "end", 9)]
    for mode, kind in (("native", "native"), ("P=2", "heddle"), ("Go P=2", "go")):
        dots = [(x + width * math.log10(p["threads"]) / last,
                 y + height * (1 - (math.log10(p[mode]["median"]) - low) / max(high - low, 1)))
                for p in points if mode in p]
        path = " ".join(f"{a:.1f},{b:.1f}" for a, b in dots)
        out.append(f'<polyline points="{path}" fill="none" stroke="{COLOURS[kind]}" stroke-width="2"/>')
    for p in points:
        out.append(text(x + width * math.log10(p["threads"]) / last, y + height + 12, f"{p['threads']:,}", "middle", 9))
    return out


def draw(about, rows, growth):
    title = f"heddle, {about['date']}: {about['cpus']} cpus ({about['model']}), Linux {about['kernel']}; medians of {about['runs']}"
    body, bottom, right = bars(rows, 80)
    points = [g for g in growth if "P=2" in g]
    subjects = list(dict.fromkeys(g["subject"] for g in points))
    for i, subject in enumerate(subjects):
        body += panel(subject, [g for g in points if g["subject"] == subject],
                      60 + i % 3 * (PANEL[0] + 60), bottom + 50 + i // 3 * (PANEL[1] + 50))
    height = bottom + 40 + (len(subjects) + 2) // 3 * (PANEL[1] + 50)
    width = max(right + 40, 60 + 3 * (PANEL[0] + 60) if subjects else 0, 700)
    legend = [text(20, 22, title, size=13)]
    for i, (kind, what) in enumerate((("native", "better than natively, or native"), ("heddle", "heddle, two Ps"),
                                      ("go", "better than Go, or Go"))):
        legend += [rect(20 + 230 * i, 36, 12, 12, COLOURS[kind]), text(38 + 230 * i, 46, what)]
    return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:.0f}" height="{height:.0f}" '
            f'font-family="sans-serif"><rect width="100%" height="100%" fill="#fff"/>\n'
            + "\n".join(legend + body) + "\n</svg>\n")
