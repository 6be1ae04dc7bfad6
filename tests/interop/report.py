"""Makes docs/interop.md: the results of the matrix, and the contents of its captures. It needs only docs/interop/,
so everybody can make the page again from the checked-in files, without a guest."""
import json
import pathlib

import capture
import cases
import failures

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE, FOLDER = TOP / "docs/interop.md", TOP / "docs/interop"
RESULTS = FOLDER / "results.json"
CAPTURE_BYTES = 200 << 10  # The limit for the compressed size of all captures together.

INTRODUCTION = """\
# Interoperability

The software endpoint of rdmc was run against an implementation that is independent of it: Debian's kernel with
Soft-RoCE (rdma_rxe), and the tools of rdma-core, in an emulated machine (tests/interop).

A run passes if all of these conditions hold:

- Both programs end with success.
- The received bytes are equal to the bytes that were sent. Our programs check every byte. `ibv_rc_pingpong -c` checks
  one byte of each page, and the client of rping checks all bytes.
- Our endpoint dropped no packet as corrupt.
- Every packet of both sides has the same ICRC as an independent computation.

"1 % loss" means that RoCE packets are dropped in both directions. Half of the dropped packets are chosen at random. The
other half is every 199th packet. If no packet was dropped, the run fails.

"Our verbs programs" are rdmc_pingpong on the guest's RDMA device (`--fabric verbs`).

The same run has more tests, which are not in the matrix:

- The provider's own tests run on that device.
- There are two rdmc_bcast groups. In the first group, a UDP socket sends to the device, to a UDP socket and to a DPDK
  port. In the second group, the device sends to a UDP socket and to a DPDK port.
- Sockets of every kind are tested: streams, messages, the calls without copies, and a group socket. They run between
  two processes on the device. They also run between a process on the device and a process on a UDP socket, in both
  directions. Every byte is checked.
- Every operation of unicast (rdmc/unicast.hpp) is tested in the same three combinations. If a peer uses a key that it
  has taken from another connection, our software refuses the key. The device accepts such a key
  ([decision 94](decisions/0094-keys-per-connection.md)).

`./check` runs the matrix, and fails if the results differ from the table below. Do not edit this page:
`tests/interop/interop_test.py --page` makes it from `docs/interop/`. With `--write`, a run also replaces the results
and the captures in `docs/interop/`.

## The matrix

The column "we are" shows whether our program is the client or the server. The last four columns show the results with
a path MTU of 1024 and of 4096, each without loss and with 1 % loss.

"""


def load_results():
    return json.loads(RESULTS.read_text()) if RESULTS.is_file() else {}


def save_results(results):
    FOLDER.mkdir(parents=True, exist_ok=True)
    RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def captures():
    return sorted(FOLDER.glob("*.pcap.gz"))


def _matrix(results):
    lines = ["| peer | our packets through | we are | IP | 1024 | 1024, loss | 4096 | 4096, loss |", "|---|---|---|---|---|---|---|---|"]
    rows = {}
    for case in cases.all_cases():
        outcome = results.get(str(case)) or "not run"
        rows.setdefault((case.peer, case.driver, case.role, f"IPv{case.family}"), []).append(outcome.split(":")[0])
    lines += [f"| {' | '.join(row)} | {' | '.join(outcomes)} |" for row, outcomes in rows.items()]
    reasons = dict.fromkeys((name, reason) for name, reason in cases.NOT_RUN.items())
    if reasons:
        lines += ["", "Not run:", "", *(f"- {name}: {reason}" for name, reason in reasons)]
    failures = [f"- {name}: {outcome.partition(': ')[2]}" for name, outcome in results.items() if outcome.startswith("fail")]
    if failures:
        lines += ["", "Failed:", "", *failures]
    return lines


def _failures(results):
    return ["", "## When something goes wrong", "",
            "Our programs ran against rping and ibv_rc_pingpong over a UDP socket with IPv4. \"pass\" means three things:", "",
            "- Our program failed with the right error: \"the peer reached outside of what it was granted\", \"remote access error\",",
            "  \"retry exceeded\", or \"the port belongs to the device\".",
            "- Our program counted the error.",
            "- All other connections continued.",
            "", "| what | |", "|---|---|", *(f"| {what} | {results.get(what, 'not run').split(':')[0]} |" for what in failures.CELLS)]


def _captures():
    lines = ["", "## The captures", "",
             "tshark decodes all of them without an error. \"Numbered\" counts the IPv4 packets with an identification other than 0. A",
             "UDP socket does not show the identification, so the receiver computes it from the ICRC ([wire.md](wire.md), \"ICRC\").", "",
             "| capture | packets | ICRC right | numbered | opcodes |", "|---|---|---|---|---|"]
    for path in captures():
        one = capture.load(path)
        counted = ", ".join(f"{name} {count}" for name, count in capture.opcodes(path))
        lines.append(f"| [{path.name.removesuffix('.pcap.gz')}](interop/{path.name}) | {len(one.packets)} | "
                     f"{sum(packet.sound for packet in one.packets)} | "
                     f"{sum(packet.identification != 0 for packet in one.packets)} | {counted} |")
    return lines


def page():
    """Returns the text of the page."""
    return INTRODUCTION + "\n".join(_matrix(load_results()) + _failures(load_results()) + _captures()) + "\n"
