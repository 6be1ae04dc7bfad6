"""Figures 4 and 9 with real processes on this machine: `rdmc_perf bcast`. What is measured depends on the machine and
on what else it does: each point is the median of rounds in turn."""
import statistics

import measure

MEGA = 1 << 20


def goodput(program, **options):
    words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", value)]
    return measure.report(program, "bcast", *words, "--json")["goodput_gbps"]


def rounds(program, points, count):
    """points: what to run, as options. Its medians, from `count` turns through all of them."""
    figures = [[] for _ in points]
    for _ in range(count):
        for place, options in enumerate(points):
            figures[place].append(goodput(program, **options))
    return [round(statistics.median(one), 3) for one in figures]


def block_size(program, count):
    series = []
    for members in (4, 8):
        for size in (4 * MEGA, 64 * MEGA):
            blocks = [1 << bits for bits in range(14, 24) if 1 << bits <= size]
            asked = [{"members": members, "size": size, "block_size": block, "iterations": 3} for block in blocks]
            series.append({"label": f"{members} members, {size // MEGA} MB",
                           "points": [list(point) for point in zip(blocks, rounds(program, asked, count))]})
    return [{"title": "udp over loopback", "series": series}]


def concurrent_senders(program, count):
    series = []
    for members in (4, 8):
        senders = [n for n in (1, 2, 4, 8) if n <= members]
        asked = [{"members": members, "size": 16 * MEGA, "senders": n, "iterations": 3} for n in senders]
        sums = [n * rate for n, rate in zip(senders, rounds(program, asked, count))]
        series.append({"label": f"{members} members", "points": [[n, round(y, 3)] for n, y in zip(senders, sums)]})
    return [{"title": "16 MB each, udp over loopback", "series": series}]


FIGURES = {"machine-block-size": block_size, "machine-senders": concurrent_senders}
