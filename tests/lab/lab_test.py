#!/usr/bin/env python3
"""Tests the lab. Hosts must reach each other with the requested rate and loss, and nothing may remain when the lab has
ended."""
import errno
import os
import pathlib
import signal
import subprocess
import sys
import tempfile
import time
import unittest

import lab

ECHO = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind((sys.argv[1], 7)); print("ready", flush=True)
while True:
    data, who = s.recvfrom(65536); s.sendto(data, who)
"""
# Receives until the stream ends. Then prints the rate between the first byte and the last byte, in bytes per
# second.
SINK = """
import socket, sys, time
s = socket.socket(); s.bind((sys.argv[1], 9)); s.listen(); print("ready", flush=True)
c, _ = s.accept(); total = len(c.recv(1)); start = time.monotonic()
while data := c.recv(1 << 20): total += len(data)
print(total / (time.monotonic() - start), flush=True)
"""
SOURCE = """
import socket, sys
s = socket.create_connection((sys.argv[1], 9)); s.sendall(bytes(int(sys.argv[2])))
"""
SPRAY = """
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); 
for i in range(int(sys.argv[2])):
    s.sendto(bytes(100), (sys.argv[1], 9))
"""


class Lab(unittest.TestCase):
    def network(self, hosts, **options):
        return self.enterContext(lab.Network(hosts, **options))

    def start(self, host, program, *arguments):
        process = self.enterContext(host.popen([sys.executable, "-c", program, *arguments],
                                               stdout=subprocess.PIPE, text=True))
        self.addCleanup(process.kill)
        self.assertEqual(process.stdout.readline(), "ready\n")
        return process

    def test_hosts_reach_each_other_with_datagrams_of_the_mtu(self):
        first, _, third = self.network(3, mtu=9000).hosts
        self.start(third, ECHO, third.address)
        said = first.run(sys.executable, "-c", f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(10)
s.setsockopt(socket.IPPROTO_IP, 10, 2)  # IP_MTU_DISCOVER, IP_PMTUDISC_DO: never fragment
s.sendto(bytes(8972), ("{third.address}", 7)); print(len(s.recv(65536)))
try: s.sendto(bytes(8973), ("{third.address}", 7))
except OSError as error: print(error.errno)""")
        self.assertEqual(said.split(), ["8972", str(errno.EMSGSIZE)])

    def test_a_link_carries_its_rate_and_no_more(self):
        first, second = self.network(2, rate="200mbit").hosts
        sink = self.start(second, SINK, second.address)
        # This takes one second at the full rate.
        first.run(sys.executable, "-c", SOURCE, second.address, 25_000_000)
        bits = float(sink.stdout.readline()) * 8
        self.assertGreater(bits, 0.7 * 200e6)
        self.assertLess(bits, 1.05 * 200e6)

    def test_the_share_asked_for_is_lost_packet_by_packet(self):
        network = self.network(2, loss=0.1)
        first, second = network.hosts
        first.run(sys.executable, "-c", SPRAY, second.address, 10_000)
        came, octets, lost = network.losses()
        self.assertGreaterEqual(came, 10_000)
        self.assertLess(octets / came, 9000)
        self.assertAlmostEqual(lost / came, 0.1, delta=0.02)

    def test_streams_are_lost_packet_by_packet_too(self):
        network = self.network(2, loss=0.01)
        first, second = network.hosts
        sink = self.start(second, SINK, second.address)
        first.run(sys.executable, "-c", SOURCE, second.address, 20_000_000)
        self.assertGreater(float(sink.stdout.readline()), 0)
        came, octets, lost = network.losses()
        self.assertLessEqual(octets / came, 9000)
        self.assertGreater(lost, 0)

    def test_a_silenced_host_is_not_reached(self):
        network = self.network(2)
        first, second = network.hosts
        self.start(second, ECHO, second.address)
        network.silence(second)
        said = first.run(sys.executable, "-c", f"""
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.settimeout(0.3); s.sendto(b"x", ("{second.address}", 7))
try: print(s.recv(10))
except OSError: print("silent")""")
        self.assertEqual(said, "silent\n")

    def test_nothing_outlives_a_lab_that_is_killed(self):
        with tempfile.TemporaryDirectory() as folder:
            program = pathlib.Path(folder, "victim.py")
            program.write_text(f"""
import sys; sys.path.insert(0, {str(pathlib.Path(lab.__file__).parent)!r})
import lab; lab.enter()
host = lab.Network(1).hosts[0]
child = host.popen(["sleep", "1000.{os.getpid()}"])
print("ready", flush=True); child.wait()""")
            with subprocess.Popen([sys.executable, program], stdout=subprocess.PIPE, text=True) as victim:
                self.assertEqual(victim.stdout.readline(), "ready\n")
                marker = f"sleep\0{1000}.{os.getpid()}\0".encode()
                self.wait_until(lambda: len(running(marker)) == 1)
                victim.send_signal(signal.SIGKILL)
            self.wait_until(lambda: not running(marker))

    def wait_until(self, condition):
        deadline = time.monotonic() + 10
        while not condition():
            self.assertLess(time.monotonic(), deadline)
            os.sched_yield()


def running(command_line):
    found = []
    for name in filter(str.isdigit, os.listdir("/proc")):
        try:
            if pathlib.Path("/proc", name, "cmdline").read_bytes() == command_line:
                found.append(int(name))
        except OSError:
            pass
    return found


if __name__ == "__main__":
    lab.enter()
    unittest.main()
