"""docs/interop.md: what the matrix gave, and what the captures of it show. Made of docs/interop/ alone, so that anybody
can make it again from what is checked in, without a guest."""
import json
import pathlib

import capture
import cases
import failures

TOP = pathlib.Path(__file__).resolve().parent.parent.parent
PAGE, FOLDER = TOP / "docs/interop.md", TOP / "docs/interop"
RESULTS = FOLDER / "results.json"
CAPTURE_BYTES = 200 << 10  # all of them together, compressed

INTRODUCTION = """\
# Interoperability

What the software endpoint was run against, on a wire that nobody here wrote the other end of: Debian's kernel with
Soft-RoCE (rdma_rxe) and the tools of rdma-core, in an emulated machine (tests/interop). A run passes if both programs end
well, what was received is what was sent (we look at every byte, ibv_rc_pingpong -c at one of each page, rping's client at
all), our endpoint dropped no packet as corrupt, and every packet of either side has the ICRC that an independent computation gives it. "1 % loss" loses RoCE
packets in both directions, half of them at random and half in turn; a run that lost none fails.

"Our verbs programs" are rdmc_pingpong on the guest's RDMA device (`--fabric verbs`). Beside the matrix the same run has the provider's
own tests on that device, and two rdmc_bcast groups: of a socket that sends to that device, a socket and a DPDK port, and of the device that sends to a socket and a DPDK port; and it talks through sockets
of every kind (stream, messages, without copies, a group; every byte is looked at) between two processes on that device, and between one on
it and one on a UDP socket, both ways. Every operation of unicast (rdmc/unicast.hpp) is run in the same three ways; a key that a peer has
taken from another connection is refused by our software, and the device takes it ([decision 94](decisions/0094-keys-per-connection.md)).

`./check` runs the matrix and fails if it does not give this table. This page is made from `docs/interop/` by
`tests/interop/interop_test.py --write`; do not edit it.

## The matrix

"We are" says which side ours is. The columns are the path MTU, without and with 1 % loss.

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
            "Our programs against rping and ibv_rc_pingpong over a socket, IPv4. \"pass\": ours failed by the name that belongs to it (the peer",
            "reached outside of what it was granted; remote access error; retry exceeded; the port belongs to the device), counted it, and whoever was not concerned worked on.",
            "", "| what | |", "|---|---|", *(f"| {what} | {results.get(what, 'not run').split(':')[0]} |" for what in failures.CELLS)]


def _captures():
    lines = ["", "## The captures", "",
             "Decoded by tshark without complaint. \"Numbered\" are IPv4 packets with an identification other than 0, which a socket",
             "cannot see: the receiver solves for it (docs/wire.md).", "",
             "| capture | packets | ICRC right | numbered | opcodes |", "|---|---|---|---|---|"]
    for path in captures():
        one = capture.load(path)
        counted = ", ".join(f"{name} {count}" for name, count in capture.opcodes(path))
        lines.append(f"| [{path.name.removesuffix('.pcap.gz')}](interop/{path.name}) | {len(one.packets)} | "
                     f"{sum(packet.sound for packet in one.packets)} | "
                     f"{sum(packet.identification != 0 for packet in one.packets)} | {counted} |")
    return lines


def page():
    """The page's text."""
    return INTRODUCTION + "\n".join(_matrix(load_results()) + _failures(load_results()) + _captures()) + "\n"
