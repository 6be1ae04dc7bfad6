#!/usr/bin/env python3
"""What an operator does with a key-value service: look at its status and its metrics, set a limit of memory, and stop a
server. A main that is stopped hands over, and no client of another server notices anything but a pause."""
import json
import re
import signal
import subprocess
import tempfile
import threading
import time
import unittest
import urllib.request

import kv_service
from harness import wait_until

HAND_OVERS = 20


class Load(threading.Thread):
    """Writes and reads at one server until stop(). Keeps the errors, and the longest time of a request."""

    def __init__(self, address):
        super().__init__()
        self.connection, self.is_over, self.errors, self.longest, self.count = kv_service.Connection(address, 30.0), False, [], 0, 0

    def run(self):
        while not self.is_over:
            begun = time.monotonic()
            try:
                self.connection("SET", "k", self.count)
                self.connection("GET", "k")
            except (OSError, kv_service.ReplyError) as error:
                self.errors.append(repr(error))
                return
            self.longest = max(self.longest, time.monotonic() - begun)
            self.count += 1

    def stop(self):
        self.is_over = True
        self.join()
        self.connection.close()


class Operation(unittest.TestCase):
    def service(self, count, *options):
        service = kv_service.Service(count, *options)
        self.addCleanup(service.end)
        service.wait_until_whole()
        return service

    def test_a_main_that_is_stopped_hands_over_and_clients_of_other_servers_see_no_error(self):
        service = self.service(3, "--unavailable-after", "20s")
        ends, pauses = [], []
        for _ in range(HAND_OVERS):
            main = service.main()
            loads = [Load(server.address) for server in service.servers if server is not main]
            own = kv_service.Connection(main.address)
            for load in loads:
                load.start()
            wait_until(lambda: all(load.count > 5 for load in loads), "the clients are served")
            # A request that is on its way gets its reply.
            own.send("SET", "last", "x" * 1000)
            wait_until(lambda: own.file.peek(1), "the main has answered")
            begun = time.monotonic()
            main.process.send_signal(signal.SIGTERM)
            self.assertEqual(main.process.wait(30), 0)
            ends.append(time.monotonic() - begun)
            self.assertEqual(own.receive(), "OK")
            before = [load.count for load in loads]
            wait_until(lambda: all(load.count > count + 5 or load.errors for load, count in zip(loads, before)), "the clients are served again")
            for load in loads:
                load.stop()
                self.assertEqual(load.errors, [])
                pauses.append(load.longest)
            own.close()
            main.process = None
            main.start()
            service.wait_until_whole()
        ends.sort()
        pauses.sort()
        print(f"end of a main: median {ends[len(ends) // 2] * 1000:.0f} ms, most {ends[-1] * 1000:.0f} ms; longest request: median "
              f"{pauses[len(pauses) // 2] * 1000:.0f} ms, most {pauses[-1] * 1000:.0f} ms")

    def test_the_status_shows_all_servers_and_which_one_is_missing(self):
        service = self.service(3)
        main = service.main()
        connection = kv_service.Connection(main.address)
        self.assertEqual(connection("SET", "a", "b"), "OK")
        connection.close()

        def status(*options):
            done = subprocess.run([kv_service.KV, "status", service.servers[0].address, *options], capture_output=True, text=True, timeout=60)
            return done.returncode, done.stdout

        code, text = status("--json")
        shown = json.loads(text)
        self.assertEqual((code, shown["complete"], shown["main"]), (0, True, main.address), text)
        self.assertEqual([server["address"] for server in shown["servers"]], service.addresses)
        self.assertEqual([server["keys"] for server in shown["servers"]], [1, 1, 1])
        victim = next(server for server in service.servers[1:] if server is not main)
        victim.kill()
        wait_until(lambda: status("--json")[0] == 3, "the status knows that a server is missing")
        code, text = status()
        self.assertEqual(text.count("\n"), 4, text)
        self.assertIn(victim.address, text)
        nobody = subprocess.run([kv_service.KV, "status", "127.0.0.1:1"], capture_output=True, text=True, timeout=60)
        self.assertEqual(nobody.returncode, 2, nobody)
        # Without a majority, the last server still says what it knows. It finds out without requests that it would refuse
        # them.
        last = service.servers[0]
        for server in service.servers[1:]:
            if server.process:
                server.kill()
        missing = [server.address for server in service.servers[1:]]
        wait_until(lambda: last.info().get("rdmc_is_available") == "0", "the server knows that it would refuse requests")
        wait_until(lambda: any(f"the server {address} does not answer this server" in service.complaints() for address in missing),
                   "the log says who does not answer")
        code, text = status("--json")
        shown = next(server for server in json.loads(text)["servers"] if server["address"] == last.address)
        self.assertEqual((code, shown["reachable"], shown["available"]), (3, True, False), text)

    def test_the_log_of_a_server_without_a_majority_says_who_does_not_answer(self):
        service = self.service(3)
        silent = service.servers[1:]
        for server in silent:
            server.process.send_signal(signal.SIGSTOP)
        wait_until(lambda: all(f"the server {server.address} does not answer this server" in service.complaints() for server in silent),
                   "the log says who does not answer")
        wait_until(lambda: service.servers[0].info().get("rdmc_is_available") == "0", "the server would refuse requests")
        for server in silent:
            server.process.send_signal(signal.SIGCONT)
        wait_until(lambda: all(server.info().get("rdmc_is_available") == "1" for server in service.servers), "requests get answers again")

    def test_the_status_with_a_password_shows_no_lag_and_what_a_minority_replies(self):
        with tempfile.NamedTemporaryFile("w") as file:
            file.write("secret")
            file.flush()
            service = kv_service.Service(3, "--requirepass-file", file.name)
            self.addCleanup(service.end)

            def status(*options):
                done = subprocess.run([kv_service.KV, "status", service.servers[0].address, "--json", "--password-file", file.name, *options],
                                      capture_output=True, text=True, timeout=60)
                return done.returncode, done.stdout and json.loads(done.stdout)

            wait_until(lambda: status()[0] == 0, "all servers have all data")
            for _ in range(20):
                code, shown = status()
                self.assertEqual((code, [server["lag_positions"] for server in shown["servers"]]), (0, [0, 0, 0]))
            for server in service.servers[1:]:
                server.kill()

            def outage():
                code, shown = status()
                return shown["servers"] if code == 3 and "CLUSTERDOWN" in shown["servers"][0].get("cause", "") else None

            # A login waits for up to 2 s, as other requests do.
            begun = time.monotonic()
            shown = wait_until(outage, "the server cannot check the password")
            print(f"the last server refused a login after {time.monotonic() - begun:.1f} s")
            self.assertEqual([(server["address"], server["reachable"]) for server in shown], list(zip(service.addresses, (True, False, False))))
            self.assertTrue(all("cannot connect" in server["cause"] for server in shown[1:]), shown)

    def test_the_status_of_a_server_that_does_not_reply_is_incomplete(self):
        for options in ("--unavailable-after", "600s"), ():
            service = self.service(3, *options)
            service.wait_until_whole()
            for server in service.servers[1:] if options else service.servers:
                server.process.send_signal(signal.SIGSTOP)
            with tempfile.NamedTemporaryFile("w") as file:
                file.write("secret")
                file.flush()
                command = [kv_service.KV, "status", service.servers[0].address, "--password-file", file.name]
                # Until the service has no majority, the password is wrong.
                done = wait_until(lambda: (lambda done: done if done.returncode == 3 else None)(
                    subprocess.run(command, capture_output=True, text=True, timeout=60)), "the status is incomplete", 60)
            self.assertIn("does not answer within 3 s", done.stdout)
            service.end()

    def test_metrics_follow_what_clients_do(self):
        service = kv_service.Service(1, "--metrics", "0")
        self.addCleanup(service.end)
        line = wait_until(lambda: re.search(r"metrics are at (http://\S+)", service.complaints()), "the server tells its metrics")
        connection = kv_service.Connection(service.addresses[0])
        for _ in range(3):
            self.assertEqual(connection("SET", "a", "b"), "OK")
        connection.close()
        with urllib.request.urlopen(line[1], timeout=30) as answer:
            text = answer.read().decode()
        label = f'server="{service.addresses[0]}"'
        for sample in (f"rdmc_kv_up{{{label}}} 1", f"rdmc_kv_is_main{{{label}}} 1", f"rdmc_kv_keys{{{label}}} 1",
                       f'rdmc_kv_commands_total{{{label},command="set"}} 3', f"rdmc_kv_requests_total{{{label}}} 3"):
            self.assertIn(sample + "\n", text)
        self.assertRegex(service.complaints(), r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z info rdmc_kv: clients connect to ")

    def test_all_servers_keep_the_same_limit_of_memory_and_evict_the_same_keys(self):
        service = self.service(3, "--maxmemory", "200kb", "--maxmemory-policy", "allkeys-lru")
        connections = [kv_service.Connection(address, 60.0) for address in service.addresses]
        wait_until(lambda: all(one("CONFIG", "GET", "maxmemory") == ["maxmemory", "204800"] for one in connections), "the limit is known")
        for i in range(1000):
            self.assertEqual(connections[i % 3]("SET", f"key{i}", "v" * 1000), "OK")

        def info(connection):
            return dict(line.split(":", 1) for line in connection("INFO", "memory", "stats").split("\r\n") if ":" in line)

        wait_until(lambda: all(int(info(one)["used_memory"]) <= 204800 for one in connections), "enough keys are evicted")
        keys = [sorted(one("KEYS", "*")) for one in connections]
        self.assertEqual(keys[0], keys[1])
        self.assertEqual(keys[0], keys[2])
        self.assertEqual({info(one)["evicted_keys"] for one in connections}, {str(1000 - len(keys[0]))})
        self.assertIn("key999", keys[0])
        self.assertEqual(connections[0]("CONFIG", "SET", "maxmemory-policy", "noeviction", "maxmemory", "1"), "OK")
        for one in connections:
            self.assertEqual(one("CONFIG", "GET", "maxmemory-policy"), ["maxmemory-policy", "noeviction"])
            with self.assertRaisesRegex(kv_service.ReplyError, "^OOM command not allowed"):
                one("SET", "a", "b")
            one.close()


if __name__ == "__main__":
    unittest.main()
