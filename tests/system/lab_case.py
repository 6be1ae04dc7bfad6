"""Base of the tests that broadcast between hosts of a lab. A program with such tests must first call lab.enter()."""
import pathlib
import sys

from harness import Agent, BcastCase

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import lab


class LabCase(BcastCase):
    """A test with its own hosts. The first host is the sender's."""
    HOSTS = 3
    RATE = None  # The rate of the hosts' links, in the notation of tc.

    def setUp(self):
        super().setUp()
        self.network = lab.Network(self.HOSTS, rate=self.RATE)
        self.addCleanup(self.network.__exit__)
        self.hosts = self.network.hosts

    def agent_on(self, host, *options, index=0):
        """Starts the agent with the number `index` on this host."""
        root = self.folder / f"root-{host.name}-{index}"
        root.mkdir()
        return Agent(self, host.address, self.port + index, root, self.key(), host.command([]), options=options)
