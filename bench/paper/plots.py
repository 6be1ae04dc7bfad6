"""Draws the data of bench/figures. Each figure becomes one PNG with its panels side by side, small enough to check in."""
import io
import math

import matplotlib
matplotlib.use("Agg")
import matplotlib.pyplot as plt
from matplotlib.ticker import FuncFormatter
from PIL import Image

COLOURS = ["#0b5fa5", "#d1495b", "#2e8540", "#8a5a00", "#6a4c93", "#444444"]
MARKS = "osD^vx"

# For each name: the title, the x label, the y label, the scale of x ("members" or "bytes"), whether the scale of y is
# logarithmic, the paper's own points (panel, x, y, text) and the paper's own lines (y, text).
LOOKS = {
    "fig4-block-size": dict(title="Multicast bandwidth by block size (paper: Figure 4)", x="block size", y="Gb/s", bytes=True,
                            paper_lines=[(17, "paper: a link carries 17 Gb/s and more")]),
    "fig4-processes": dict(title="Real processes of one machine: bandwidth by block size (paper: Figure 4)", x="block size",
                           y="Gb/s", bytes=True),
    "fig9-processes": dict(title="Real processes of one machine: concurrent senders (paper: Figure 9)", x="members",
                           y="Gb/s, sum over senders"),
    "fig5-group-size": dict(title="Multicast bandwidth by group size (paper: Figure 5)", x="members", y="Gb/s",
                            paper_points=[(0, 3, 25, "paper: 25 with 2 receivers"), (1, 65, 10, "paper: 10 with 64"),
                                          (1, 512, 5, "paper: 5 with 512")]),
    "fig6-7-small-messages": dict(title="Delay of a one-block message (paper: Figures 6 and 7)", x="members",
                                  y="send to last delivery, us"),
    "fig8-algorithms": dict(title="Algorithms, 256 MB (paper: Figure 8)", x="members", y="Gb/s"),
    "fig9-senders": dict(title="Concurrent senders: all messages together (paper: Figure 9)", x="members",
                         y="Gb/s, sum over senders"),
    "over-bound": dict(title="16 MiB through packets: time over k - 1 + ceil(log2 n) blocks", x="members", y="time / bound",
                       limits={"bottom": 1, "top": 1.4}),
    "scale": dict(title="Thousands of members: latency 5 us, relay cost 50 us, jitter 10 us", x="members", y=""),
    "skew": dict(title="Delivery skew: first to last delivery", x="members", y="% of the whole time"),
    "slow-link": dict(title="One connection at half its rate", x="block size", y="% of the bandwidth left", bytes=True,
                      paper_lines=[(85.6, "later paper: 85.6 %")]),
}


def size_text(value, _=None):
    for unit, factor in (("M", 1 << 20), ("K", 1 << 10)):
        if value >= factor:
            return f"{value / factor:g}{unit}"
    return f"{value:g}"


def lines(axes, series, look):
    solid = [one for one in series if not one.get("dashed")]
    for i, one in enumerate(series):
        # A dashed series has the colour of the solid series before it.
        colour = solid.index(one) if one in solid else max(0, solid.index(series[i - 1]))
        axes.plot([x for x, _ in one["points"]], [y for _, y in one["points"]], color=COLOURS[colour % len(COLOURS)],
                  linestyle="--" if one.get("dashed") else "-", marker=None if one.get("dashed") else MARKS[colour % len(MARKS)],
                  markersize=4, linewidth=1.2, label=one["label"])
    axes.set_xscale("log", base=2)
    ticks = sorted({x for one in series for x, _ in one["points"] if (int(x) & (int(x) - 1)) == 0})
    axes.set_xticks(ticks[::2] if len(ticks) > 8 else ticks)
    axes.xaxis.set_major_formatter(FuncFormatter(size_text if look.get("bytes") else lambda value, _: f"{value:g}"))
    axes.xaxis.set_minor_locator(matplotlib.ticker.NullLocator())
    if look.get("log"):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def draw(name, data, path):
    look = LOOKS[name]
    panels = data["panels"]
    figure, all_axes = plt.subplots(1, len(panels), figsize=(4.6 * len(panels) + 0.6, 4.1), squeeze=False, dpi=100)
    for place, (axes, panel) in enumerate(zip(all_axes[0], panels)):
        lines(axes, panel["series"], look)
        for y, what in look.get("paper_lines", []):
            axes.axhline(y, color="#888888", linewidth=0.9, linestyle=":", label=what)
        for where, x, y, what in look.get("paper_points", []):
            if where == place:
                axes.plot([x], [y], marker="*", markersize=11, color="black", linestyle="none", label=what)
        if not look.get("log"):
            axes.set_ylim(**look.get("limits", {"bottom": 0}))
        axes.set_title(panel["title"], fontsize=9)
        axes.set_xlabel(look["x"], fontsize=9)
        axes.set_ylabel(look["y"], fontsize=9)
        axes.tick_params(labelsize=8)
        axes.grid(True, which="major", linewidth=0.4, color="#cccccc")
    figure.suptitle(look["title"], fontsize=10)
    entries = {}
    for axes in all_axes[0]:
        for handle, label in zip(*axes.get_legend_handles_labels()):
            entries.setdefault(label, handle)
    rows = math.ceil(len(entries) / (2 * len(panels)))
    figure.legend(entries.values(), entries.keys(), loc="lower center", ncol=2 * len(panels), fontsize=7, frameon=False)
    figure.tight_layout(rect=(0, 0.045 * rows + 0.01, 1, 1))
    drawn = io.BytesIO()
    figure.savefig(drawn, format="png")
    plt.close(figure)
    Image.open(drawn).convert("RGB").quantize(64).save(path, optimize=True)
