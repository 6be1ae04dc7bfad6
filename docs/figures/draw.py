#!/usr/bin/env python3
"""draw.py [--to DIR]: draws the pictures of the documentation as SVG files (default: this folder). It needs only the
standard library, and the same script always writes the same bytes.

  layers.svg         the folders of the sources, and which of them may include which
  pipeline.svg       the binomial pipeline with 8 members and 4 blocks, computed as dataplane/relay/hypercube.hpp does
  file.svg           the way of a file's bytes from the sender's disk to a receiver's disk
  view_change.svg    a view change, from the last sign of a member to the takeover
  kv_write.svg       the way of a write through a key-value service of three servers
  socket_paths.svg   the four paths that the bytes of a stream can take

Exit: 0 all pictures are written. A text that does not fit its box, and a schedule that is wrong, end it with an
assertion."""
import argparse
import html
import pathlib
import sys

INK, GREY, LINE = "#1b1f24", "#57606a", "#8c959f"
BLUE, GREEN, YELLOW, RED, VIOLET = "#dbe9fb", "#dcf2e0", "#fdf1cc", "#fbdcd7", "#e9e0f7"
STRONG_BLUE, STRONG_RED = "#1f5fae", "#b3261e"
FONT = "DejaVu Sans, Verdana, Helvetica, Arial, sans-serif"
CHARACTER = 0.57  # The mean width of a character, as a part of the font size, in a wide sans-serif font.


def width_of(text, size, bold=False):
    return len(text) * size * CHARACTER * (1.06 if bold else 1)


class Picture:
    def __init__(self, width, height, title, description):
        self.width, self.height, self.title, self.description = width, height, title, description
        self.parts, self.too_wide = [], []
        self.rectangle(0, 0, width, height, "#ffffff", line="none")

    def rectangle(self, x, y, width, height, fill, line=LINE, dashed=False, radius=0):
        dash = ' stroke-dasharray="5 4"' if dashed else ""
        corner = f' rx="{radius}"' if radius else ""
        self.parts.append(f'<rect x="{x}" y="{y}" width="{width}" height="{height}" fill="{fill}" stroke="{line}"{corner}{dash}/>')

    def text(self, x, y, text, size=13, anchor="start", colour=INK, bold=False, room=None):
        """One line of text, whose baseline is at `y`. `room` is the width that it must fit into."""
        if room is None:
            room = {"start": self.width - x, "end": x, "middle": 2 * min(x, self.width - x)}[anchor]
        if width_of(text, size, bold) > room:
            self.too_wide.append(f"'{text}' needs {width_of(text, size, bold):.0f}, has {room:.0f}")
        weight = ' font-weight="bold"' if bold else ""
        self.parts.append(f'<text x="{x}" y="{y}" font-size="{size}" text-anchor="{anchor}" fill="{colour}"{weight}>'
                          f"{html.escape(text)}</text>")

    def lines(self, x, y, lines, size=13, anchor="start", colour=INK, room=None, step=None):
        for index, line in enumerate(lines):
            self.text(x, y + index * (step or size + 4), line, size, anchor, colour, room=room)

    def box(self, x, y, width, height, lines, fill, size=13, bold_first=True, dashed=False, colour=INK):
        """A rectangle with lines of text in its middle. The first line may be bold."""
        self.rectangle(x, y, width, height, fill, dashed=dashed, radius=4)
        step = size + 4
        assert len(lines) * step <= height, f"{self.title}: {lines} are too high for {height}"
        top = y + (height - len(lines) * step) / 2 + size
        for index, line in enumerate(lines):
            bold = bold_first and index == 0
            self.text(x + width / 2, round(top + index * step, 1), line, size, "middle", colour, bold, room=width - 6)

    def arrow(self, start, end, colour=INK, width=1.6, dashed=False):
        """A straight line with a head at `end`."""
        dx, dy = end[0] - start[0], end[1] - start[1]
        length = (dx * dx + dy * dy) ** 0.5
        ux, uy = dx / length, dy / length
        head = 5 + 2 * width
        base = (end[0] - ux * head, end[1] - uy * head)
        side = head * 0.45
        corners = [end, (base[0] - uy * side, base[1] + ux * side), (base[0] + uy * side, base[1] - ux * side)]
        self.parts.append('<polygon points="' + " ".join(f"{a:.1f},{b:.1f}" for a, b in corners) + f'" fill="{colour}"/>')
        self.line(*start, round(base[0], 1), round(base[1], 1), colour, width, dashed)

    def line(self, x1, y1, x2, y2, colour=LINE, width=1, dashed=False):
        dash = ' stroke-dasharray="4 4"' if dashed else ""
        self.parts.append(f'<line x1="{x1}" y1="{y1}" x2="{x2}" y2="{y2}" stroke="{colour}" stroke-width="{width}"{dash}/>')

    def number(self, x, y, number):
        self.parts.append(f'<circle cx="{x}" cy="{y}" r="10" fill="{STRONG_BLUE}"/>')
        self.text(x, y + 4, str(number), 12, "middle", "#ffffff", bold=True, room=24)

    def svg(self):
        assert not self.too_wide, f"{self.title}: " + "; ".join(self.too_wide)
        return (f'<svg xmlns="http://www.w3.org/2000/svg" width="{self.width}" height="{self.height}" '
                f'viewBox="0 0 {self.width} {self.height}" role="img" font-family="{FONT}">\n'
                f"<title>{html.escape(self.title)}</title>\n<desc>{html.escape(self.description)}</desc>\n" +
                "\n".join(self.parts) + "\n</svg>\n")


# ---- layers.svg ----

def layers():
    picture = Picture(1000, 742, "The layers",
                      "apps may include lib, controlplane and dataplane; lib may include controlplane and dataplane; "
                      "controlplane may include dataplane. Inside dataplane, fabric includes roce, port, memory, engine, "
                      "crypto and base; relay includes base.")
    left, width = 20, 800

    def layer(y, height, name, purpose, fill):
        picture.rectangle(left, y, width, height, fill, radius=6)
        picture.text(left + 14, y + 24, name, 16, bold=True)
        picture.text(left + 14 + width_of(name, 16, True) + 10, y + 24, purpose, 12, colour=GREY)

    def folders(y, names, x=left + 14, each=None, height=44):
        each = each or (width - 28 - (len(names) - 1) * 10) / len(names)
        for index, lines in enumerate(names):
            picture.box(round(x + index * (each + 10), 1), y, round(each, 1), height, lines, "#ffffff", 12)

    layer(16, 94, "apps/", "programs", VIOLET)
    folders(50, [["bcast-cli", "rdmc_bcast"], ["control", "rdmc_control"], ["tools", "doctor, ping"],
                 ["sim", "rdmc_sim"], ["units", "sizes, rates"]])
    layer(136, 94, "lib/", "librdmc: what applications link", BLUE)
    folders(170, [["include/rdmc", "public headers"], ["group"], ["membership"], ["socket"], ["unicast"]])
    layer(256, 146, "controlplane/", "who takes part, and how processes connect", GREEN)
    folders(290, [["session", "core"], ["membership"], ["view", "core"], ["store", "caspaxos: core"]])
    folders(344, [["peer"], ["launch"], ["connect"], ["auth"]])
    layer(428, 294, "dataplane/", "everything that carries payload", YELLOW)
    for y in (110, 230, 402):
        picture.arrow((120, y), (120, y + 26), width=2.4)

    # Inside the dataplane the arrows say which folder includes which.
    folders(464, [["relay", "core"]], x=48, each=170)
    folders(464, [["fabric", "udp, shm, verbs"]], x=360, each=240)
    names = [["cm", "core"], ["roce", "core"], ["port"], ["memory"], ["engine"], ["crypto"]]
    folders(560, names, x=34, each=118)
    folders(660, [["sim"]], x=290, each=118)
    folders(660, [["base"]], x=546, each=246)
    for index in range(1, 6):
        centre = 34 + index * 128 + 59
        picture.arrow((400 + (index - 1) * 40, 508), (centre, 560))
    picture.arrow((218, 486), (360, 486), dashed=True, colour=GREY)
    picture.text(289, 478, "queue_pair.hpp only", 11, "middle", GREY, room=142)
    picture.line(34, 632, 792, 632, LINE, 1.4)
    for index in range(6):
        centre = 34 + index * 128 + 59
        picture.line(centre, 604, centre, 632, LINE, 1.4)
    picture.arrow((669, 632), (669, 660), colour=GREY)
    picture.text(660, 652, "every folder may include base", 11, "end", GREY, room=200)
    picture.arrow((349, 604), (349, 660), dashed=True, colour=GREY)
    picture.text(182, 652, "the simulated port", 11, colour=GREY, room=160)
    picture.arrow((408, 682), (546, 682), colour=GREY)

    picture.rectangle(850, 16, 130, 706, "#f3f4f6", radius=6, dashed=True)
    picture.text(915, 48, "bench/", 16, "middle", bold=True, room=120)
    picture.text(915, 74, "tests/", 16, "middle", bold=True, room=120)
    picture.lines(915, 330, ["may include", "everything;", "no other", "folder may", "include them"], 12, "middle", GREY, room=120)
    for y in (63, 183, 329, 575):
        picture.arrow((850, y), (820, y), colour=GREY)
    picture.lines(160, 126, ["A layer may include all layers below it, and no layer above it."], 12, colour=GREY, room=640)
    return picture


# ---- pipeline.svg ----

class Hypercube:
    """The schedule of dataplane/relay/hypercube.hpp and binomial_pipeline.cpp, for a power of two of members.

    There is one member in each vertex then, so no twins and no final exchange."""

    def __init__(self, members, blocks):
        assert members >= 2 and members & (members - 1) == 0
        self.members, self.blocks = members, blocks
        self.dimensions = members.bit_length() - 1
        self.steps = blocks + self.dimensions - 1

    def across(self, vertex, step):
        return vertex ^ 1 << step % self.dimensions

    def outgoing(self, vertex, step):
        """The block that leaves `vertex` in this step, or None. (Hypercube::outgoing)"""
        to = self.across(vertex, step)
        if to == 0:
            return None
        d = step % self.dimensions
        rotated = (to >> d | to << self.dimensions - d) & self.members - 1
        lead = 0
        if rotated & 1:
            upper = rotated & ~1
            lead = self.dimensions if upper == 0 else (upper & -upper).bit_length() - 1
        if step + lead < self.dimensions:
            return None
        return min(step + lead - self.dimensions, self.blocks - 1)

    def transfers(self):
        """For each step the list of (sender, receiver, block). Checks that the schedule does its work."""
        held = [set(range(self.blocks))] + [set() for _ in range(self.members - 1)]
        schedule = []
        for step in range(self.steps):
            now = [(member, self.across(member, step), block) for member in range(self.members)
                   if (block := self.outgoing(member, step)) is not None]
            for sender, receiver, block in now:
                assert block in held[sender], f"step {step}: member {sender} sends block {block}, which it lacks"
                assert block not in held[receiver], f"step {step}: member {receiver} has block {block} already"
            for end in (0, 1):  # At most one block leaves each member, and at most one arrives at it.
                ends = [transfer[end] for transfer in now]
                assert len(ends) == len(set(ends)), f"step {step}: {now}"
            for _, receiver, block in now:
                held[receiver].add(block)
            schedule.append(now)
        assert all(len(blocks) == self.blocks for blocks in held), held
        return schedule


def pipeline():
    members, blocks = 8, 4
    cube = Hypercube(members, blocks)
    schedule = cube.transfers()
    assert len(schedule) == blocks - 1 + 3 == 6
    letters, colours = "ABCD", [BLUE, GREEN, YELLOW, RED]
    left, top, cell, row = 150, 92, 116, 42
    picture = Picture(left + 6 * cell + 110, top + members * row + 66, "The binomial pipeline",
                      "A table of 8 members and 6 steps. Each cell names the block that the member receives and its sender.")
    picture.text(20, 30, "The binomial pipeline: 8 members, 4 blocks (A, B, C, D), 4 - 1 + log2 8 = 6 steps", 15, bold=True)
    picture.text(20, 54, "A cell names the block that a member receives in a step, and the member that sends it.", 13, colour=GREY)
    for step in range(cube.steps):
        picture.text(left + step * cell + cell / 2, top - 10, f"step {step + 1}", 13, "middle", bold=True, room=cell)
    picture.text(left + 6 * cell + 14, top - 10, "has in the end", 12, colour=GREY, room=100)
    held = [set(range(blocks))] + [set() for _ in range(members - 1)]
    for member in range(members):
        y = top + member * row
        picture.text(20, y + 27, "member 0 (root)" if member == 0 else f"member {member}", 13, bold=True, room=left - 20)
        for step in range(cube.steps):
            x = left + step * cell
            received = [(sender, block) for sender, receiver, block in schedule[step] if receiver == member]
            sent = [(receiver, block) for sender, receiver, block in schedule[step] if sender == member]
            if member == 0 and sent:
                receiver, block = sent[0]
                picture.rectangle(x, y, cell, row, "#ffffff", dashed=False)
                picture.text(x + cell / 2, y + 27, f"sends {letters[block]} to {receiver}", 12, "middle", GREY, room=cell)
            elif received:
                sender, block = received[0]
                held[member].add(block)
                picture.rectangle(x, y, cell, row, colours[block])
                picture.text(x + 14, y + 28, letters[block], 17, bold=True, room=30)
                picture.text(x + 40, y + 27, f"from {sender}", 13, room=cell - 40)
            else:
                picture.rectangle(x, y, cell, row, "#f3f4f6")
        picture.text(left + 6 * cell + 14, y + 27, " ".join(letters[block] for block in sorted(held[member])), 13, room=96)
    y = top + members * row + 26
    picture.text(20, y, "In each step, a member exchanges blocks with the member whose number differs from its own in one bit.", 12, colour=GREY)
    picture.text(20, y + 20, "In no step does a member send more than one block, or receive more than one.", 12, colour=GREY)
    return picture


# ---- file.svg ----

def file():
    picture = Picture(1000, 612, "A file's way",
                      "The sender's reader thread reads the file into a ring of block slots. A queue pair cuts each block into packets, "
                      "and a UDP socket sends them. At the receiver the kernel scatters the payload into a block slot. The relay sends the "
                      "block on, and the writer thread writes it and hashes it. In the end the digest is compared, and the file is "
                      "synced and renamed.")
    picture.rectangle(16, 16, 300, 496, "#f8fafc", radius=6)
    picture.text(166, 40, "sender's host", 15, "middle", bold=True, room=290)
    picture.rectangle(392, 16, 592, 496, "#f8fafc", radius=6)
    picture.text(688, 40, "a receiver's host", 15, "middle", bold=True, room=580)

    x, width = 40, 252
    picture.box(x, 56, width, 46, ["disk, page cache", "the file SRC"], BLUE)
    picture.box(x, 138, width, 62, ["reader thread", "reads block after block, in order,", "and computes the digest"], GREEN, 12)
    picture.box(x, 236, width, 62, ["ring of block slots", "up to 32 MB; a slot is free when", "all destinations have its block"], YELLOW, 12)
    picture.box(x, 334, width, 62, ["queue pair", "cuts the block into packets, which", "name memory that was granted"], VIOLET, 12)
    picture.box(x, 432, width, 62, ["UDP socket", "trains of packets: one call of the", "kernel sends up to 64 KB"], BLUE, 12)
    for index, y in enumerate((102, 200, 298, 396)):
        picture.arrow((166, y), (166, y + 36))
        picture.number(192, y + 18, index + 1)

    x2 = 412
    picture.box(x2, 432, 252, 62, ["UDP socket", "the kernel scatters the payload to", "where its block belongs: one copy"], BLUE, 12)
    picture.arrow((292, 463), (412, 463), width=2.4, colour=STRONG_BLUE)
    picture.number(352, 440, 5)
    picture.text(354, 488, "RoCEv2", 12, "middle", GREY, room=80)
    picture.box(x2, 334, 252, 62, ["queue pair", "checks and acknowledges packets;", "lost packets are sent again"], VIOLET, 12)
    picture.arrow((538, 432), (538, 396))
    picture.number(564, 414, 6)
    picture.box(x2, 236, 252, 62, ["block slot in the ring", "the payload is here already;", "the ring has up to 32 MB"], YELLOW, 12)
    picture.arrow((538, 334), (538, 298))
    picture.number(564, 316, 7)

    picture.box(x2, 138, 252, 62, ["writer thread", "writes each block where it belongs,", "hashes them in the file's order"], GREEN, 12)
    picture.arrow((538, 236), (538, 200))
    picture.number(564, 218, 9)
    picture.box(x2, 56, 252, 46, ["page cache, disk", ".NAME.rdmc-partial"], BLUE)
    picture.arrow((538, 138), (538, 102))
    picture.box(716, 56, 252, 62, ["digest, fsync, rename", "a name only for a file whose digest", "is right and that is on the disk"], GREEN, 12)
    picture.arrow((664, 79), (716, 79))
    picture.number(690, 58, 10)

    picture.box(716, 236, 252, 62, ["relay", "the schedule says which member gets", "this block next, and in which step"], RED, 12)
    picture.arrow((664, 267), (716, 267))
    picture.number(690, 246, 8)
    picture.box(716, 334, 252, 62, ["queue pair to the next member", "sends from the same slot,", "without a copy"], VIOLET, 12)
    picture.arrow((842, 298), (842, 334))
    picture.box(716, 432, 252, 62, ["UDP socket", "while this member still", "receives other blocks"], BLUE, 12)
    picture.arrow((842, 396), (842, 432))
    picture.arrow((842, 494), (842, 560), width=2.4, colour=STRONG_BLUE)
    picture.text(858, 548, "next member", 12, colour=GREY, room=110)
    picture.lines(20, 576, ["A slot is free again when its block is written, hashed, and acknowledged by all destinations of this member. "
                            "Then it is granted again.",
                            "Every receiver does the same. The sender's link carries about one copy of the file, however many receivers there are."],
                  12, colour=GREY, room=970, step=20)
    return picture


# ---- view_change.svg ----

def view_change():
    picture = Picture(1000, 960, "A view change",
                      "Members A and B no longer hear member C. A proposes a view without C by a compare-and-swap in the store, tells B, and both "
                      "install it. A process that takes over from C serves when C's lease has ended.")
    columns = {"A": 345, "B": 545, "C": 745, "store": 915}
    titles = {"A": ["member A", "the oldest member"], "B": ["member B", ""], "C": ["member C", "holds a lease"], "store": ["view store", "epoch 7"]}
    for name, x in columns.items():
        lines = [line for line in titles[name] if line]
        picture.box(x - 75, 14, 150, 44, lines, BLUE if name != "store" else GREEN)
        picture.line(x, 58, x, 930 if name != "C" else 169, LINE, 1.4, dashed=True)

    def message(y, sender, receiver, text, part=0.5):
        a, b = columns[sender], columns[receiver]
        picture.arrow((a, y), (b, y))
        picture.text(a + (b - a) * part, y - 6, text, 12, "middle", room=abs(a - b) - 8)

    def step(y, number, lines):
        picture.number(24, y, number)
        picture.lines(42, y + 4, lines, 12, room=200, step=16)

    def act(y, name, lines, fill=YELLOW, width=168, height=None):
        height = height or len(lines) * 17 + 10
        picture.box(columns[name] - width / 2, y, width, height, lines, fill, 12, bold_first=False)

    step(92, 1, ["Every 50 ms each member", "sends its status to all:", "which members it hears."])
    message(92, "C", "A", "status of C", part=0.25)
    message(124, "A", "C", "status of A", part=0.25)
    picture.line(730, 160, 760, 178, STRONG_RED, 2.4)
    picture.line(760, 160, 730, 178, STRONG_RED, 2.4)
    picture.text(745, 200, "C is cut off, or hangs", 13, "middle", STRONG_RED, bold=True, room=240)

    step(226, 2, ["After 450 to 600 ms of", "silence, a member suspects C:", "the link to C is bad.", "(A seen exit of C needs no", "such wait.)"])
    act(210, "A", ["A suspects C"])
    act(210, "B", ["B suspects C"])
    step(346, 3, ["The changed status goes at", "once to the two members", "that would propose first."])
    message(346, "B", "A", "status: B does not hear C")

    step(422, 4, ["A judges: most of those that", "A hears have a bad link to C.", "A waits 1 ms for further", "changes. (If A does nothing,", "B proposes 30 ms later.)"])
    act(410, "A", ["A removes C", "from its next view"])

    step(526, 5, ["The proposal: replace the", "view of epoch 7 by epoch 8.", "Of several proposals, the", "store accepts exactly one."])
    message(526, "A", "store", "compare-and-swap: epoch 7 to 8, members A and B")
    message(566, "store", "A", "swapped: the view of epoch 8 is agreed")

    step(616, 6, ["A sends the agreed view to", "all members. The store's", "notification comes later, and", "repairs a lost message."])
    message(616, "A", "B", "agreed: view of epoch 8")

    step(706, 7, ["The fence: queue pairs to C", "are destroyed, old keys are", "revoked, and messages of", "epoch 7 have no effect.", "Then the application is told."])
    act(690, "A", ["A installs epoch 8"], VIOLET)
    act(690, "B", ["B installs epoch 8"], VIOLET)
    act(722, "A", ["installed(view)"], "#ffffff")
    act(722, "B", ["installed(view)"], "#ffffff")
    act(690, "C", ["if C lives, no member", "accepts what it sends", "any more"], RED, 168)

    step(826, 8, ["The lease that C may still", "hold ends. Only an exit that", "was seen shortens this wait."])
    act(806, "C", ["C's lease ends here", "at the latest"], RED, 168)
    picture.arrow((661, 828), (629, 828), colour=GREY)
    act(806, "B", ["waits until", "takeover_at"])
    step(900, 9, ["The takeover: from now on", "another member serves what", "C served."])
    act(884, "B", ["earlier_leases_over(8)", "B serves in place of C"], GREEN, 176)
    return picture


# ---- kv_write.svg ----

def kv_write():
    picture = Picture(1000, 560, "The way of a write through a key-value service",
                      "A client sends SET to server B. B submits it to the main A, which puts it into the order and sends it to all servers. Every "
                      "server executes it. When all servers have it, B sends the reply.")
    columns = {"client": 330, "B": 510, "A": 700, "C": 890}
    titles = {"client": ["client"], "B": ["server B"], "A": ["server A", "the main"], "C": ["server C"]}
    for name, x in columns.items():
        picture.box(x - 75, 14, 150, 44, titles[name], GREEN if name == "client" else BLUE)
        picture.line(x, 58, x, 530, LINE, 1.4, dashed=True)

    def message(y, sender, receiver, text):
        a, b = columns[sender], columns[receiver]
        picture.arrow((a, y), (b, y))
        picture.text((a + b) / 2, y - 6, text, 12, "middle", room=abs(a - b) - 8)

    def step(y, number, lines):
        picture.number(24, y, number)
        picture.lines(42, y + 4, lines, 12, room=200, step=16)

    def act(y, name, lines, fill=YELLOW):
        picture.box(columns[name] - 70, y, 140, len(lines) * 17 + 10, lines, fill, 12, bold_first=False)

    step(92, 1, ["The client may use any", "server."])
    message(92, "client", "B", "SET k 1")
    step(150, 2, ["B puts all writes of one turn", "of its loop into one batch."])
    act(134, "B", ["batch"])
    message(190, "B", "A", "event: the batch")
    step(234, 3, ["The main decides the order.", "It adds the time and a random", "number, and sends the event", "to all servers."])
    act(218, "A", ["position 7, time,", "random number"])
    message(282, "A", "B", "event 7")
    message(282, "A", "C", "event 7")
    step(332, 4, ["All servers execute the same", "commands in the same order.", "Only B keeps the reply."])
    for name in ("B", "A", "C"):
        act(316, name, ["executes SET k 1"], VIOLET)
    step(404, 5, ["When all servers have the", "event, it is stable, and", "cannot be lost any more."])
    message(404, "C", "A", "has event 7")
    message(428, "A", "B", "event 7 is stable")
    step(484, 6, ["The reply leaves."])
    message(484, "B", "client", "+OK")
    return picture


# ---- socket_paths.svg ----

def socket_paths():
    picture = Picture(1000, 724, "The paths of a stream's bytes",
                      "Four paths from send() in one process to recv() in another: frames on the trunk, a lane in shared memory, "
                      "slots for large messages, and bytes that the waiting sender lends.")
    picture.text(190, 34, "process A: send()", 15, "middle", bold=True, room=330)
    picture.text(810, 34, "process B: recv()", 15, "middle", bold=True, room=330)

    def path(y, height, number, name, when):
        picture.rectangle(16, y, 968, height, "none", radius=6)
        picture.number(36, y + 20, number)
        picture.text(54, y + 25, name, 14, bold=True, room=420)
        picture.text(968, y + 25, when, 12, "end", GREY, room=600)

    def copied(x, y, length=44, label="copy"):
        picture.arrow((x, y), (x + length, y))
        picture.text(x + length / 2, y - 7, label, 11, "middle", GREY, room=length + 14)

    app_a, app_b = 32, 848

    def applications(y, height=44, a="application's", b="application's"):
        picture.box(app_a, y, 120, height, [a, "bytes"], BLUE, 12, bold_first=False)
        picture.box(app_b, y, 120, height, [b, "buffer"], BLUE, 12, bold_first=False)

    def write(y, x1, x2, label="WRITE"):
        picture.arrow((x1, y), (x2, y), width=3, colour=STRONG_BLUE)
        picture.text((x1 + x2) / 2, y - 9, label, 12, "middle", STRONG_BLUE, room=x2 - x1 + 10)

    path(50, 108, 1, "Frames on the trunk", "every connection begins so")
    applications(98)
    copied(152, 120)
    picture.box(196, 98, 100, 44, ["send queue", "256 KB"], YELLOW, 12, bold_first=False)
    copied(296, 120)
    picture.box(340, 98, 80, 44, ["frame"], VIOLET, 12, bold_first=False)
    write(120, 420, 566, "WRITE")
    picture.box(566, 98, 94, 44, ["frame ring", "256 KB"], VIOLET, 12, bold_first=False)
    copied(660, 120)
    picture.box(704, 98, 100, 44, ["receive queue", "256 KB"], YELLOW, 12, bold_first=False)
    copied(804, 120)

    path(174, 108, 2, "A lane", "one host, after 4 KB or 4 sends")
    applications(222)
    copied(152, 244, 206)
    picture.box(358, 222, 284, 44, ["ring of 256 KB in memory that", "both processes have mapped"], GREEN, 12, bold_first=False)
    copied(642, 244, 206)

    path(298, 216, 3, "Slots for large messages", "no lane: after 512 KB, calls of 64 KB and more; or rdmc_send_zc")
    applications(346)
    copied(152, 368, 60)
    picture.box(212, 346, 120, 44, ["piece", "256 KB"], YELLOW, 12, bold_first=False)
    write(368, 332, 588, "WRITE with immediate")
    picture.box(588, 346, 140, 44, ["slot of 1 MB", "that B has granted"], VIOLET, 12, bold_first=False)
    copied(728, 368, 120)
    picture.line(32, 406, 968, 406, LINE, 1, dashed=True)
    picture.text(32, 426, "The same with the calls without copies:", 12, colour=GREY, room=460)
    picture.box(32, 440, 210, 44, ["memory of rdmc_alloc", "rdmc_send_zc, rdmc_sent"], BLUE, 12, bold_first=False)
    write(462, 242, 588, "WRITE with immediate")
    picture.box(588, 440, 380, 44, ["slot, lent to the application in place", "rdmc_recv_zc, rdmc_release"], VIOLET, 12, bold_first=False)
    picture.text(32, 504, "The slot is granted again when the application has released it or its bytes are copied out.", 12, colour=GREY, room=900)

    path(530, 134, 4, "Lent bytes", "one host, a lane, and a blocking send with 128 KB or more left")
    picture.box(32, 578, 140, 44, ["application's bytes", "send() waits"], BLUE, 12, bold_first=False)
    picture.box(app_b, 578, 120, 44, ["application's", "buffer"], BLUE, 12, bold_first=False)
    picture.arrow((172, 600), (848, 600), width=2.4, colour=STRONG_BLUE)
    picture.text(510, 590, "B's call copies straight from A's memory (process_vm_readv): one copy in all", 12, "middle", STRONG_BLUE, room=660)
    picture.arrow((172, 616), (848, 616), dashed=True, colour=GREY)
    picture.text(510, 634, "an advert in the lane says which bytes; the last 64 KB go through the lane", 12, "middle", GREY, room=660)
    picture.text(32, 652, "If B reads nothing for a while, A's bytes go through the lane.", 12, colour=GREY, room=460)

    picture.text(20, 688, "A thick blue arrow is the fabric's work (or one copy by the reader). A queue pair carries WRITEs through UDP, DPDK, a NIC or shared memory.", 12, colour=GREY)
    picture.text(20, 708, "All paths keep the order of the stream. A connection starts with frames, and changes its path while it runs.", 12, colour=GREY)
    return picture


PICTURES = {"layers": layers, "pipeline": pipeline, "file": file, "view_change": view_change, "kv_write": kv_write,
            "socket_paths": socket_paths}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--to", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent, help="the folder to write to")
    arguments = parser.parse_args()
    for name, draw in PICTURES.items():
        (arguments.to / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
