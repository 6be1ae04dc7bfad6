#!/usr/bin/env python3
"""Servers of rdmc_kv with --dir. Kills all servers of a service at once, again and again, while clients read and write. What
the clients saw must be linearizable across all restarts: so no acknowledged write is lost. Then the disk: full, damaged, or
cut off by a loss of power. RDMC_DEATHS sets the number of times that all servers die, RDMC_SEED chooses other moments."""
import os
import pathlib
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "lab"))
import kv_service
import lab
from harness import wait_until

DEATHS = int(os.environ.get("RDMC_DEATHS", "8"))
SEED = int(os.environ.get("RDMC_SEED", "1"))
MIB = 1 << 20


class Disk(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp(prefix="rdmc-kv-")
        self.addCleanup(shutil.rmtree, self.folder)

    def service(self, count, syncs, folder=None):
        service = kv_service.Service(count, "--appendfsync", syncs, folder=folder or self.folder)
        self.addCleanup(service.end)
        return service

    def clients(self, service, number):
        clients = [kv_service.Client(service, SEED * 100 + index) for index in range(number)]
        for client in clients:
            client.start()
            self.addCleanup(client.stop)
        return clients

    def connection(self, server):
        connection = kv_service.Connection(server.address)
        self.addCleanup(connection.close)
        return connection

    @staticmethod
    def answered(clients):
        return max((client.answers[-1] for client in clients if client.answers), default=0)

    def set_for_all(self, service, *words):
        for address in service.addresses:
            connection = kv_service.Connection(address)
            self.assertEqual(connection(*words), "OK")
            connection.close()

    def die_again_and_again(self, count, syncs, wipes):
        """Returns what to print."""
        service = self.service(count, syncs)
        service.wait_until_whole()
        # Short logs, so that copies are written all the time.
        self.set_for_all(service, "CONFIG", "SET", "auto-aof-rewrite-min-size", "20000")
        chosen = random.Random(SEED)
        clients = self.clients(service, 4)
        wiped = 0
        for death in range(DEATHS):
            for client in clients:
                client.round = death
            time.sleep(chosen.uniform(0.05, 0.6))
            servers = service.servers[:]
            chosen.shuffle(servers)
            if count > 1 and chosen.random() < 0.5:
                # One server is behind when all die, or is about to get the data.
                servers[0].kill()
                time.sleep(chosen.uniform(0.0, 0.3))
                if chosen.random() < 0.5:
                    servers[0].start()
                    time.sleep(chosen.uniform(0.0, 0.5))
            for server in servers:
                if server.process:
                    server.kill()
            if wipes and chosen.random() < 0.3:
                wiped += 1
                shutil.rmtree(chosen.choice(servers).directory())
            before = time.monotonic_ns()
            chosen.shuffle(servers)
            for server in servers:
                server.start()
                time.sleep(chosen.choice((0.0, 0.1)))
            try:
                wait_until(lambda: self.answered(clients) > before, "the service goes on")
            except AssertionError as late:
                raise AssertionError(f"{late}; the servers' log:\n{service.complaints()[-3000:]}") from late
            if wipes or death % 4 == 0:
                service.wait_until_whole()
                self.set_for_all(service, "CONFIG", "SET", "auto-aof-rewrite-min-size", "20000")
        for client in clients:
            client.stop()
        operations = kv_service.check(clients)
        self.assertGreater(operations, 10 * DEATHS)
        return (f"{count} servers, {syncs}: all died {DEATHS} times, {wiped} disks were wiped: {operations} operations are "
                f"linearizable, {sum(client.uncertain for client in clients)} without a certain reply")

    def test_a_server_that_is_alone_has_all_acknowledged_writes_after_its_death(self):
        print(self.die_again_and_again(1, "always", wipes=False))

    def test_a_server_that_was_killed_has_what_it_gave_to_the_kernel(self):
        print(self.die_again_and_again(1, "no", wipes=False))

    def test_a_service_has_all_acknowledged_writes_after_the_death_of_all_its_servers(self):
        print(self.die_again_and_again(3, "always", wipes=False))

    def test_a_service_survives_the_death_of_all_its_servers_and_the_loss_of_a_disk(self):
        print(self.die_again_and_again(3, "always", wipes=True))

    def test_two_of_three_servers_are_enough_after_the_death_of_all(self):
        service = self.service(3, "always")
        service.wait_until_whole()
        connection = self.connection(service.servers[0])
        self.assertEqual(connection("SET", "a", "b"), "OK")
        for server in service.servers:
            server.kill()
        for server in service.servers[1:]:
            server.start()
        main = service.main()
        connection = self.connection(main)
        self.assertEqual(wait_until(lambda: self.reply(connection, "GET", "a"), "the data are there"), "b")

    def test_two_of_three_servers_may_die_at_the_same_time(self):
        service = self.service(3, "everysec")
        service.wait_until_whole()
        connection = self.connection(service.servers[2])
        self.assertEqual(connection("SET", "a", "b"), "OK")
        for server in service.servers[:2]:
            server.kill()
        for server in service.servers[:2]:
            server.start()
        service.wait_until_whole()
        self.assertEqual(connection("APPEND", "a", "c"), 2)
        self.assertEqual(self.connection(service.servers[0])("GET", "a"), "bc")

    def stop(self, server):
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(30), 0)
        server.process = None

    def test_servers_that_are_stopped_one_after_the_other_have_all_data(self):
        service = self.service(3, "no")
        service.wait_until_whole()
        first, second, third = service.servers
        self.assertEqual(self.connection(second)("SET", "a", "b"), "OK")
        self.stop(first)
        self.assertEqual(wait_until(lambda: self.reply(self.connection(third), "APPEND", "a", "c"), "two servers go on"), 2)
        self.stop(second)
        self.stop(third)
        # The disk of the first server has older data.
        first.start()
        second.start()
        connection = self.connection(service.main())
        self.assertEqual(wait_until(lambda: self.reply(connection, "GET", "a"), "the data are there"), "bc")

    def test_a_service_on_one_host_goes_on_at_once_after_the_end_of_all_its_servers(self):
        # Without a proof that the earlier servers have ended, the new ones wait for 7.5 s.
        service = self.service(3, "always")
        service.wait_until_whole()
        for again in (service.servers, service.servers[1:]):
            for end in ("kill", "stop", "stop all"):
                for server in service.servers:
                    if end == "kill":
                        server.kill()
                    elif end == "stop":
                        self.stop(server)
                    else:
                        server.process.send_signal(signal.SIGTERM)
                for server in service.servers:
                    if server.process:
                        server.process.wait(30)
                for server in again:
                    server.start()
                begun = time.monotonic()
                connection = wait_until(lambda: self.try_to_connect(again[-1]), "the server listens")
                wait_until(lambda: self.reply(connection, "SET", "a", "b"), "the service goes on")
                took = time.monotonic() - begun
                print(f"{end}, {len(again)} servers are started again: the service goes on after {took:.2f} s")
                self.assertLess(took, 5)
                for server in service.servers:
                    if server not in again:
                        server.start()
                service.wait_until_whole()

    @staticmethod
    def try_to_connect(server):
        try:
            return kv_service.Connection(server.address)
        except OSError:
            return None

    def test_a_server_that_is_alone_and_is_stopped_has_all_data(self):
        service = self.service(1, "no")
        service.wait_until_whole()
        connection = self.connection(service.servers[0])
        self.assertEqual(connection("CONFIG", "SET", "maxmemory", "100mb"), "OK")
        self.assertEqual(connection("SET", "a", "b"), "OK")
        self.stop(service.servers[0])
        service.servers[0].start()
        service.wait_until_whole()
        connection = self.connection(service.servers[0])
        self.assertEqual(connection("GET", "a"), "b")
        self.assertEqual(connection("CONFIG", "GET", "maxmemory"), ["maxmemory", str(100 * MIB)])

    @staticmethod
    def reply(connection, *words):
        try:
            return connection(*words)
        except kv_service.ReplyError:
            return None

    def unmount(self, folder):
        """A child process of a server that was killed may have files open for a moment."""
        def is_unmounted():
            return subprocess.run(["umount", str(folder)], capture_output=True, check=False).returncode == 0
        wait_until(is_unmounted, f"{folder} is not busy any more", 60)

    def full_disk(self):
        """A small file system of its own, with a file that takes most of it."""
        folder = pathlib.Path(self.folder) / "small"
        folder.mkdir()
        lab.run("mount", "-t", "tmpfs", "-o", f"size={24 * MIB}", "tmpfs", str(folder))
        self.addCleanup(self.unmount, folder)
        (folder / "hog").write_bytes(bytes(8 * MIB))
        return folder

    def test_a_full_disk_turns_writes_away_and_loses_nothing(self):
        for syncs in ("always", "everysec"):
            with self.subTest(syncs=syncs):
                self.fill_the_disk(syncs)

    def fill_the_disk(self, syncs):
        self.folder = tempfile.mkdtemp(dir=self.folder)
        folder = self.full_disk()
        service = self.service(1, syncs, folder=str(folder))
        service.wait_until_whole()
        connection = self.connection(service.servers[0])
        written = 0
        with self.assertRaisesRegex(kv_service.ReplyError, "MISCONF Errors writing to the AOF file"):
            while written < 1000:
                connection("RPUSH", "list", "x" * 100_000)
                written += 1
        self.assertGreater(written, 20)
        # Reads go on.
        self.assertEqual(connection("LLEN", "list"), written)
        self.assertIn("aof_last_write_status:err", connection("INFO", "persistence"))
        (folder / "hog").unlink()
        wait_until(lambda: self.reply(connection, "RPUSH", "list", "y"), "the server takes writes again")
        service.servers[0].kill()
        service.servers[0].start()
        service.wait_until_whole()
        connection = self.connection(service.servers[0])
        self.assertEqual(connection("LLEN", "list"), written + 1)
        service.end()

    def test_a_file_that_may_not_become_longer_turns_writes_away(self):
        _, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
        resource.setrlimit(resource.RLIMIT_FSIZE, (20 * MIB, hard))
        self.addCleanup(resource.setrlimit, resource.RLIMIT_FSIZE, (hard, hard))
        service = self.service(1, "everysec")
        service.wait_until_whole()
        connection = self.connection(service.servers[0])
        with self.assertRaisesRegex(kv_service.ReplyError, "MISCONF Errors writing to the AOF file"):
            for _ in range(1000):
                connection("RPUSH", "list", "x" * 100_000)
        self.assertGreater(connection("LLEN", "list"), 0)

    def test_a_cut_off_end_is_repaired_and_damage_is_refused(self):
        service = self.service(1, "always")
        service.wait_until_whole()
        server = service.servers[0]
        connection = self.connection(server)
        for number in range(10):
            connection("RPUSH", "list", number)
        server.kill()
        log = pathlib.Path(server.directory()) / "log-1"
        content = log.read_bytes()
        end = len(content.rstrip(b"\0"))
        log.write_bytes(content[:end - 3])
        server.start()
        service.wait_until_whole()
        connection = self.connection(server)
        self.assertEqual(connection("LRANGE", "list", 0, -1), [str(number) for number in range(9)])
        server.kill()
        log.write_bytes(content[:100] + b"!" + content[101:])
        refused = subprocess.run([kv_service.KV, "serve", "--listen", server.address, "--dir", server.directory()],
                                 capture_output=True, text=True, timeout=60)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("log-1: damaged at offset 64", refused.stderr)

    def test_a_copy_is_written_on_request_and_the_log_before_it_goes(self):
        service = self.service(1, "everysec")
        service.wait_until_whole()
        server = service.servers[0]
        connection = self.connection(server)
        connection("SET", "a", "b")
        self.assertIn("started", connection("BGREWRITEAOF"))
        folder = pathlib.Path(server.directory())
        wait_until(lambda: not (folder / "log-1").exists(), "the first log is gone")
        self.assertEqual(sorted(path.name for path in folder.iterdir()), ["copy-2", "lock", "log-2"])
        connection("APPEND", "a", "c")
        server.process.terminate()
        self.assertEqual(server.process.wait(30), 0)
        server.start()
        service.wait_until_whole()
        connection = self.connection(server)
        self.assertEqual(connection("GET", "a"), "bc")


if __name__ == "__main__":
    unittest.main()
