"""The experiments of the RDMC paper (section 4). Most of them run in rdmc_sim's block model with the parameters of the
paper's cluster. Some run between real processes of this machine.

Each function returns the panels of a figure: [{"title", "series": [...]}, ...]. A series is
{"label", "points": [[x, y], ...], ...}. The simulations use virtual time, so the load of the machine does not change
their results. It does change the results of real processes."""
import concurrent.futures
import functools
import json
import math
import statistics

import measure

MEGA = 1 << 20
RATE = 20e9  # Bits per second in each direction (section 4.1).
SLOW = "5.8g"  # The rate of the slow links between racks (section 4.2).
ALGORITHMS = {"binomial_pipeline": "binomial pipeline", "chain": "chain", "hybrid": "hybrid, racks of 16",
              "binomial_tree": "binomial tree", "sequential": "sequential"}
# Assumed, because the paper does not give the sizes of the racks and the number of slow links.
RACK, SLOW_PERCENT = 16, 30
PAPER_SIZES = [4, 16, 64, 256]
GROUPS = [2, 4, 8, 16, 32, 64, 128, 256, 512]
BLOCKS = [256 << 10, MEGA]
RING = "32M"
SEEDS = range(1, 9)
# The paper's implementation has one block in flight for each member. rdmc posts the next block without waiting for
# the block before.
ONE_BLOCK = {"writes_in_flight": 1}


class Simulator:
    """Runs rdmc_sim. Each run is made only once."""

    def __init__(self, program):
        self.program = program
        self.last = ""

    def command(self, options):
        options = {"model": "blocks", "rate": "20g", "window": RING, "algorithm": "binomial_pipeline", **options}
        words = [word for name, value in options.items() if value is not None for word in (f"--{name.replace('_', '-')}", str(value))]
        return ["rdmc_sim", "bcast", *words, "--json"]

    def __call__(self, **options):
        self.last = " ".join(self.command(options))
        return json.loads(self.answer(tuple(options.items())))

    @functools.lru_cache(maxsize=None)
    def answer(self, options):
        return measure.run([self.program, *self.command(dict(options))[1:]])


class Processes:
    """Runs rdmc_perf: a group of real processes on this machine."""

    def __init__(self, program):
        self.program = program
        self.last = ""

    def __call__(self, **options):
        words = [word for name, value in options.items() for word in (f"--{name.replace('_', '-')}", str(value))]
        # Short messages have more iterations, so that each configuration sends about the same number of
        # bytes.
        command = ["bcast", *words, "--iterations", str(max(4, (384 << 20) // options["size"])), "--json"]
        self.last = " ".join(["rdmc_perf", *command])
        return self.answer(tuple(command))

    @functools.lru_cache(maxsize=None)
    def answer(self, command):
        return measure.report(self.program, *command)["goodput_gbps"]


def gbps(size, said):
    return size * 8 / said["virtual_seconds"] / 1e9


def panel(title, series):
    return {"title": title, "series": series}


def curve(label, points, **more):
    return {"label": label, "points": [[x, round(y, 4)] for x, y in points], **more}


def racks_of(members, uplink="320g"):
    """Returns the options for racks of RACK members. By default the uplinks carry everything that a rack can send."""
    sizes = [RACK] * (members // RACK) + ([members % RACK] if members % RACK else [])
    return {"racks": ",".join(map(str, sizes)), "uplink_rate": uplink}


def along(algorithm, members, **uplink):
    racks = racks_of(members, **uplink) if algorithm == "hybrid" or uplink else {}
    return {"members": members, "algorithm": algorithm, **racks}


def block_size(sim):
    """Figure 4: the bandwidth by block size."""
    panels = []
    for members in (4, 16):
        series = []
        for size in (mb * MEGA for mb in PAPER_SIZES):
            blocks = [1 << bits for bits in range(15, 24) if 1 << bits <= size]
            for way, options in (("", {}), (", one block under way", ONE_BLOCK)):
                points = [(block, gbps(size, sim(members=members, size=size, block_size=block, **options))) for block in blocks]
                series.append(curve(f"{size // MEGA} MB{way}", points, dashed=bool(options)))
        panels.append(panel(f"{members} members", series))
    return panels


def block_size_of_processes(perf):
    """Figure 4 with real processes of this machine."""
    panels = []
    for fabric in ("shm", "udp"):
        series = []
        for mb in PAPER_SIZES:
            blocks = [1 << bits for bits in range(15, 23) if 1 << bits <= mb * MEGA]
            points = [(block, perf(members=4, size=mb * MEGA, block_size=block, fabric=fabric)) for block in blocks]
            series.append(curve(f"{mb} MB", points))
        panels.append(panel(f"4 processes, {fabric}", series))
    return panels


def best_gbps(sim, size, members, **options):
    """Returns the bandwidth with the best block size."""
    blocks = [block for block in BLOCKS if block <= size]
    return max(gbps(size, sim(members=members, size=size, block_size=block, **options)) for block in blocks)


def group_size(sim):
    """Figure 5: with links of 20 Gb/s everywhere, and with some slow links between racks."""
    cluster = {"slow_percent": SLOW_PERCENT, "slow_rate": SLOW, **ONE_BLOCK}
    panels = []
    for title, options in (("20 Gb/s everywhere", lambda n: {}),
                           (f"{SLOW_PERCENT} % of the connections between racks of {RACK} at 5.8 Gb/s",
                            lambda n: {**cluster, **racks_of(n)})):
        series = []
        for mb in PAPER_SIZES:
            series.append(curve(f"{mb} MB", [(n, best_gbps(sim, mb * MEGA, n, **options(n))) for n in GROUPS]))
        panels.append(panel(title, series))
    return panels


def small_messages(sim):
    """Figures 6 and 7: the microseconds from the send to the last delivery of a message of one block."""
    panels = []
    for title, cost in (("relayed, 50 us a block (Figure 6)", 50), ("the same at 1 us a block, not the paper's small path", 1)):
        series = []
        for size, label in ((1, "1 B"), (1024, "1 KB"), (16384, "16 KB")):
            points = [(n, 1e6 * sim(members=n, size=size, block_size=65536, relay_cost=cost, latency=2, jitter=1)["virtual_seconds"])
                      for n in GROUPS]
            series.append(curve(label, points))
        panels.append(panel(title, series))
    return panels


def algorithms(sim):
    """Figure 8: the bandwidth of the algorithms."""
    panels = []
    for title, uplink, most in (("20 Gb/s everywhere", {}, 512),
                                (f"racks of {RACK} share an uplink of 20 Gb/s", {"uplink": "20g"}, 128)):
        series = []
        for algorithm, label in ALGORITHMS.items():
            points = [(n, best_gbps(sim, 256 * MEGA, **along(algorithm, n, **uplink))) for n in GROUPS if n <= most]
            series.append(curve(label, points))
        panels.append(panel(title, series))
    return panels


SENDERS = (("one sender", lambda n: 1), ("half of them", lambda n: n // 2), ("every member", lambda n: n))


def concurrent_senders(sim):
    """Figure 9: the rate at which each host receives all messages together."""
    panels = []
    for mb in (64, 256):
        series = []
        for label, count in SENDERS:
            points = []
            for members in (2, 4, 8, 16):
                senders = count(members)
                said = sim(members=members, size=mb * MEGA, block_size=MEGA, senders=senders)
                points.append((members, senders * gbps(mb * MEGA, said)))
            series.append(curve(label, points))
        panels.append(panel(f"{mb} MB each", series))
    return panels


def concurrent_processes(perf):
    """Figure 9 with real processes of this machine."""
    panels = []
    for fabric in ("shm", "udp"):
        series = []
        for label, count in SENDERS:
            points = []
            for members in (2, 4, 8, 16):
                senders = count(members)
                points.append((members, senders * perf(members=members, size=16 * MEGA, senders=senders, fabric=fabric)))
            series.append(curve(label, points))
        panels.append(panel(f"16 MB each, {fabric}", series))
    return panels


def over_bound(sim):
    """Not in the paper: the time for 16 MiB divided by the bound. The bound is that of the block size that is used.
    There is a point for every number of members from 2 to 64."""
    size, panels = 16 * MEGA, []
    for rate in ("1g", "10g"):
        series = []
        for label, options in (("nothing chosen", {"algorithm": None}), *((name, {"algorithm": name, "block_size": 128 << 10})
                               for name in ("binomial_pipeline", "circulant", "two_trees", "chain"))):
            def point(members, rate=rate, options=options):
                said = sim(model="packets", rate=rate, mtu=9000, size=size, members=members, **options)
                return members, said["virtual_seconds"] / said["bound_seconds"]
            with concurrent.futures.ThreadPoolExecutor(2) as both:
                series.append(curve(label, both.map(point, range(2, 65))))
        panels.append(panel(f"{rate[:-1]} Gb/s", series))
    return panels


def scale(sim):
    """Not in the paper: the time of groups of up to 4096 members divided by the bound, and the number of connections
    of a member."""
    times, connections = [], []
    for members in (4, 8, 16, 32, 64, 100, 128, 256, 512, 1000, 1024, 2048, 4096):
        said = sim(members=members, size=256 * MEGA, block_size=MEGA)
        times.append((members, said["virtual_seconds"] / said["bound_seconds"]))
        connections.append((members, said["connections_most"]))
    limit = [(n, 2 * math.ceil(math.log2(n)) + 2) for n, _ in connections]
    return [panel("time / bound, 256 MB in blocks of 1 MB", [curve("binomial pipeline", times)]),
            panel("connections of a member", [curve("most of any member", connections),
                                              curve("2 log2 n + 2", limit, dashed=True)])]


def skew(sim):
    """The time from the first delivery to the last delivery, as a share of the whole time."""
    panels = []
    for block in BLOCKS:
        series = []
        for algorithm, label in ALGORITHMS.items():
            points = []
            for members in GROUPS:
                said = sim(**along(algorithm, members), size=256 * MEGA, block_size=block)
                points.append((members, 100 * said["skew_seconds"] / said["virtual_seconds"]))
            series.append(curve(label, points))
        panels.append(panel(f"256 MB in blocks of {block >> 10} KB", series))
    return panels


def slow_link(sim):
    """One connection between two of 64 members has half of its rate. Returns the share of the bandwidth
    that remains. Each seed chooses another connection."""
    panels = []
    for way, pick in (("median", statistics.median), ("worst", min)):
        series = []
        for algorithm, label in ALGORITHMS.items():
            points = []
            for block in (256 << 10, 512 << 10, MEGA, 2 * MEGA):
                options = {**along(algorithm, 64), "size": 256 * MEGA, "block_size": block}
                even = sim(**options)["virtual_seconds"]
                shares = [even / sim(**options, seed=seed, slow_links=1, slow_rate="10g")["virtual_seconds"] for seed in SEEDS]
                points.append((block, 100 * pick(shares)))
            series.append(curve(label, points))
        panels.append(panel(f"64 members, 256 MB, the {way} of {len(SEEDS)} draws", series))
    return panels


FIGURES = {
    "fig4-block-size": block_size,
    "fig5-group-size": group_size,
    "fig6-7-small-messages": small_messages,
    "fig8-algorithms": algorithms,
    "fig9-senders": concurrent_senders,
    "over-bound": over_bound,
    "scale": scale,
    "skew": skew,
    "slow-link": slow_link,
}
MEASURED = {
    "fig4-processes": block_size_of_processes,
    "fig9-processes": concurrent_processes,
}
