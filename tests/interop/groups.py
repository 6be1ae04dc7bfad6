"""Tests a group with members of all kinds, by one rdmc_bcast transfer. Some members are software endpoints on this
host, with a socket or a DPDK port. One member is an RDMA device in the guest."""
import contextlib
import hashlib
import json
import os
import pathlib
import socket
import subprocess
import time

import capture
import guest
import links

FILE_BYTES = 3_345_679  # The file has several blocks, and the last one is not full.
# The addresses of further receivers on this host.
SECOND_HOST4, DPDK_HOST4 = "10.78.0.5", "10.78.0.6"
DPDK_DEVICE = f"{links.DEVICES[links.AF_PACKET][0]} address={links.DEVICES[links.AF_PACKET][1]}/24"
PORT = 7700
SECONDS = 60  # A transfer with an emulated peer on a busy machine can take this long.
DSCP = 46  # This is Expedited Forwarding (RFC 3246).
PATIENCE = "20s"  # The timeout of the data path. It is long for the same reason.


def packets(machine, which):
    """Returns the number of packets that the guest's RDMA device has received or sent, from the device's own counter.
    `which` is "rcvd" or "sent"."""
    return int(machine.run(f"cat /sys/class/infiniband/rxe0/ports/1/hw_counters/{which}_pkts"))


def packets_since(machine, before=(0, 0)):
    """Returns how many packets the device has received and sent since an earlier call returned `before`."""
    return tuple(packets(machine, which) - then for which, then in zip(("rcvd", "sent"), before))


@contextlib.contextmanager
def agent_here(bcast, address, root, key, more=()):
    root.mkdir()
    agent = subprocess.Popen([bcast, "agent", "--listen", f"{address}:{PORT}", "--root", root, "--key-file", key, *more],
                             stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    try:
        yield
    finally:
        agent.terminate()
        agent.communicate()


def wait_for_agent(address, run):
    """Waits until a process listens at this address. `run` returns the content of /proc/net/tcp on the process's
    machine."""
    number = ".".join(reversed(address.split(".")))
    wanted = "".join(f"{int(part):02X}" for part in number.split(".")) + f":{PORT:04X}"
    deadline = time.monotonic() + SECONDS
    while not any(line.split()[1] == wanted and line.split()[3] == "0A" for line in run().splitlines()[1:] if line.split()):
        if time.monotonic() > deadline:
            raise guest.Failed(f"no agent listens on {address}")
        time.sleep(0.1)


def judge_events(printed, hosts, digest_of_copies, wanted):
    """Checks the events of a transfer. Returns the reason why they show a failure, or an empty text."""
    events = [json.loads(line) for line in printed.splitlines()]
    receivers = {event["host"]: event for event in events if event["event"] == "receiver"}
    for host in hosts:
        if receivers.get(host, {}).get("status") != "ok" or receivers[host]["bytes"] != FILE_BYTES:
            return f"{host}: {receivers.get(host)}"
    wrong = [host for host, digest in digest_of_copies.items() if digest != wanted]
    return f"another file arrived at {', '.join(wrong)}" if wrong else ""


def judge_marks(packets):
    """Checks that the packets of a device, of a socket and of a DPDK port all have the requested DSCP. Returns a
    message if they do not, and otherwise an empty text."""
    for address in (guest.GUEST4, links.HOST4, links.DEVICES[links.AF_PACKET][1]):
        seen = {packet.dscp for packet in packets if packet.source == socket.inet_aton(address)}
        if seen != {DSCP}:
            return f"packets of {address} have the DSCPs {sorted(seen)}, not {DSCP}"
    return ""


def run(machine, bcast, folder):
    """Sends a file from this host to the guest and to receivers on this host. Then sends a file from the guest to
    receivers on this host. Yields (case, "pass" or "fail: why") for each."""
    folder = pathlib.Path(folder)
    data = os.urandom(FILE_BYTES)
    wanted = hashlib.sha256(data).hexdigest()
    source, key = folder / "source", folder / "key"
    source.write_bytes(data)
    key.write_text(subprocess.run([bcast, "keygen"], check=True, capture_output=True, text=True).stdout)
    key.chmod(0o600)
    for address in (SECOND_HOST4, DPDK_HOST4):
        subprocess.run(["ip", "address", "add", f"{address}/24", "dev", links.BRIDGE], check=True)
    on_dpdk = ["--fabric", "dpdk", "--device", DPDK_DEVICE]
    machine.run(f"umask 077; echo {key.read_text().strip()} > /tmp/key; mkdir /tmp/root")
    machine.start(f"rdmc_bcast agent --fabric verbs --listen {guest.GUEST4}:{PORT} --root /tmp/root "
                  "--key-file /tmp/key",
                  20 * SECONDS)
    wait_for_agent(guest.GUEST4, lambda: machine.run("cat /proc/net/tcp"))
    here = lambda: pathlib.Path("/proc/net/tcp").read_text(encoding="ascii")
    # In a binomial pipeline, each of these members exchanges blocks with every other member. So all blocks
    # use the guest's network.
    options = f"--key-file {{}} --json --suspect-after {PATIENCE} --algorithm binomial_pipeline"

    def to_guest():
        before = packets(machine, "rcvd")
        with (agent_here(bcast, SECOND_HOST4, folder / "one", key),
              agent_here(bcast, DPDK_HOST4, folder / "dpdk", key, on_dpdk)):
            for address in (SECOND_HOST4, DPDK_HOST4):
                wait_for_agent(address, here)
            hosts = [f"{address}:{PORT}" for address in (guest.GUEST4, SECOND_HOST4, DPDK_HOST4)]
            done = subprocess.run([bcast, *options.format(key).split(), "--fabric", "udp", "-w", ",".join(hosts), source,
                                   "copy"], capture_output=True, text=True, timeout=SECONDS, check=False)
            if done.returncode != 0:
                return f"exit status {done.returncode}: {done.stdout[-1500:]}{done.stderr[-1500:]}"
            copies = {hosts[0]: machine.run("sha256sum /tmp/root/copy").split()[0],
                      **{host: hashlib.sha256((folder / name / "copy").read_bytes()).hexdigest()
                         for host, name in zip(hosts[1:], ("one", "dpdk"))}}
        if packets(machine, "rcvd") - before < FILE_BYTES / 4096:
            return "the file did not come through the guest's RDMA device"
        return judge_events(done.stdout, hosts, copies, wanted)

    def from_guest():
        before = packets(machine, "sent")
        marked = ["--dscp", str(DSCP)]
        with (agent_here(bcast, links.HOST4, folder / "two", key, marked),
              agent_here(bcast, DPDK_HOST4, folder / "three", key, on_dpdk + marked)):
            for address in (links.HOST4, DPDK_HOST4):
                wait_for_agent(address, here)
            hosts = [f"{links.HOST4}:{PORT}", f"{DPDK_HOST4}:{PORT}"]
            start = machine.dump.stat().st_size
            printed = machine.run(f"rdmc_bcast {options.format('/tmp/key')} --fabric verbs --dscp {DSCP} -w {','.join(hosts)} "
                                  "/tmp/root/copy again 2>/dev/null", SECONDS)
            copies = {host: hashlib.sha256((folder / name / "again").read_bytes()).hexdigest()
                      for host, name in zip(hosts, ("two", "three"))}
        if packets(machine, "sent") - before < FILE_BYTES / 4096:
            return "the file did not leave through the guest's RDMA device"
        if wrong := judge_marks(capture.Capture.since(start, machine.dump).packets):
            return wrong
        return judge_events(printed, hosts, copies, wanted)

    for what, play in (("a socket to an RDMA device, a socket and a DPDK port", to_guest),
                       ("an RDMA device to a socket and a DPDK port", from_guest)):
        try:
            wrong = play()
        except (guest.Failed, subprocess.TimeoutExpired, OSError) as error:
            wrong = str(error).strip().replace("\n", "; ")
        yield what, f"fail: {wrong}" if wrong else "pass"
