#!/usr/bin/env python3
"""Kills and stops servers of a replicated key-value service, the main more often than the others, while clients read and
write. What the clients saw must be linearizable: so no acknowledged write is lost, none takes effect twice, and no read is
old. Prints how long the service stood still when the main was killed. RDMC_FAULTS sets the number of faults, RDMC_SEED
chooses others."""
import os
import random
import signal
import statistics
import time
import unittest

import kv_service
from harness import wait_until

FAULTS = int(os.environ.get("RDMC_FAULTS", "100"))
SEED = int(os.environ.get("RDMC_SEED", "1"))


class Faults(unittest.TestCase):
    def test_what_clients_see_is_linearizable_whatever_happens_to_the_servers(self):
        service = kv_service.Service(3)
        self.addCleanup(service.end)
        service.wait_until_whole()
        chosen = random.Random(SEED)
        clients = [kv_service.Client(service, SEED * 100 + number) for number in range(5)]
        for client in clients:
            client.start()
            self.addCleanup(client.stop)
        kills = stops = 0
        stalls = []
        for fault in range(FAULTS):
            for client in clients:
                client.round = fault
            time.sleep(chosen.uniform(0.02, 0.1))
            victim = service.main() if chosen.random() < 0.6 else chosen.choice(service.servers)
            was_main = victim.is_main()
            if chosen.random() < 0.2:
                stops += 1
                victim.process.send_signal(signal.SIGSTOP)
                time.sleep(chosen.choice((0.1, 0.3, 1.0)))
                victim.process.send_signal(signal.SIGCONT)
            else:
                kills += 1
                before = time.monotonic_ns()
                victim.kill()
                if was_main:
                    wait_until(lambda: max(client.answers[-1] if client.answers else 0 for client in clients) > before + 2_000_000,
                               "the service goes on")
                    first = min(at for client in clients for at in list(client.answers) if at > before + 2_000_000)
                    stalls.append((first - before) / 1e6)
                victim.start()
            service.wait_until_whole()
        for client in clients:
            client.stop()
        operations = kv_service.check(clients)
        self.assertGreater(operations, 20 * FAULTS)
        print(f"{kills} servers killed, {stops} stopped: {operations} operations are linearizable, "
              f"{sum(client.uncertain for client in clients)} without a certain reply, "
              f"{sum(client.refused for client in clients)} refused; main killed: the next reply after "
              f"{statistics.median(stalls):.1f} ms at the median, {max(stalls):.1f} ms at most")


if __name__ == "__main__":
    unittest.main()
