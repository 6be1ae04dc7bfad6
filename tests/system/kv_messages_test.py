#!/usr/bin/env python3
"""What rdmc_kv says to an operator: about wrong options, about servers that do not fit together, and in its log. And
the unit for systemd."""
import os
import pathlib
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import unittest

import kv_service
from harness import wait_until

USAGE, FAILED = 1, 2
HELP = "Run with --help for more information."
# These files do not exist, but the options are complete.
TLS = "--tls-cert-file /none/cert --tls-key-file /none/key"

# Options of `rdmc_kv serve`, and what the error says.
WRONG = {
    "--members 127.0.0.1 --key-file ''": "--key-file: the value is empty",
    "--acl-file ''": "--acl-file: the value is empty",
    "--requirepass-file ''": "--requirepass-file: the value is empty",
    "--dir= --tls-only": "--dir: the value is empty, or it is '--tls-only', which looks like an option",
    "--dir '' --appendfsync always": "--dir: the value is empty",
    "--members '' --min-replicas 1": "--members: the value is empty",
    "--listen host": "--listen: not a numeric address: 'host'",
    "--members 127.0.0.1:7 --insecure": "--listen 127.0.0.1:6379 is not one of --members, which are 127.0.0.1:7",
    "--members ^list": "--members: no file can be named, but 'list' is",
    "--members 127.0.0.[1-65]": "--members: hostlist, position 1, in '127.0.0.[1-65]': that makes more than 64 hosts",
    "--members 127.0.0.1": "connections between hosts need a key: 'rdmc_bcast keygen FILE' makes a key file; copy it to all hosts, and give "
                           "--key-file FILE there. Instead of it, --certificate, --private-key and --authority name certificates, and "
                           "--insecure means that there is no key",
    "--members 127.0.0.1 --insecure --min-replicas 2": "--min-replicas is 2, but --members has only 1",
    "--min-replicas 2": "--min-replicas requires --members",
    "--min-replicas many": "--min-replicas: 'many' is not a value of this option: write a whole number from 1 to 64",
    "--unavailable-after 3s": "--unavailable-after needs --members or --dir",
    "--dir d --unavailable-after soon": "--unavailable-after: 'soon' is not a duration: write seconds, or a number with ms or s",
    "--dir d --unavailable-after 0s": "--unavailable-after: the shortest time is 1ms",
    "--appendfsync always": "--appendfsync requires --dir",
    "--dir d --appendfsync sometimes": "--appendfsync: 'sometimes' is not a value of this option: write always, everysec or no",
    "--maxmemory 100mib": "--maxmemory: '100mib' is not a size: write bytes, or a number with kb, mb or gb (powers of 1024), or with k, m or g "
                          "(powers of 1000)",
    "--maxmemory-policy lru": "--maxmemory-policy: 'lru' is not a value of this option: write volatile-lru, volatile-lfu, volatile-random, "
                              "volatile-ttl, allkeys-lru, allkeys-lfu, allkeys-random or noeviction",
    "--metrics host:1": "--metrics: not a numeric address: 'host:1'",
    "--fabric wire": "--fabric: 'wire' is not a value of this option: write auto, ",
    "--fabric udp": "--fabric requires --members",
    "--key-file F": "--key-file requires --members",
    "--certificate F": "--certificate requires --members",
    "--tls-only": "--tls-only requires --tls-port",
    "--tls-cert-file F": "--tls-cert-file requires --tls-port",
    "--tls-port 70000": "--tls-port: '70000' is not a value of this option: write a whole number from 0 to 65535",
    "--tls-port 1": "--tls-port needs --tls-cert-file and --tls-key-file",
    f"--tls-port 0 {TLS}": "--tls-port needs --tls-ca-cert-file, or --tls-auth-clients no",
    f"--tls-port 0 {TLS} --tls-auth-clients maybe": "--tls-auth-clients: 'maybe' is not a value of this option: write yes, no or optional",
    f"--tls-port 0 {TLS} --tls-auth-clients no --tls-ca-cert-file F":
        "--tls-ca-cert-file has no effect with --tls-auth-clients no: leave one of them out",
    f"--tls-port 7 {TLS} --tls-auth-clients no --listen 127.0.0.1:7": "--tls-port must be another port than that of --listen",
    "--acl-file F --requirepass-file F": "--acl-file excludes --requirepass-file",
}


class Messages(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.folder = pathlib.Path(folder.name)

    def serve(self, *words):
        return subprocess.run([kv_service.KV, "serve", *words], capture_output=True, text=True, timeout=120, cwd=self.folder, check=False)

    def service(self, *arguments, **options):
        service = kv_service.Service(*arguments, **options)
        self.addCleanup(service.end)
        return service

    def test_a_wrong_or_lonely_option_is_refused_in_one_sentence(self):
        for words, message in WRONG.items():
            with self.subTest(words):
                done = self.serve(*shlex.split(words))
                self.assertEqual(done.returncode, USAGE, done.stderr)
                said = done.stderr.replace("\n" + HELP, "").removeprefix("rdmc_kv: ").rstrip("\n")
                self.assertTrue(said.startswith(message) if message.endswith(", ") else said == message, said)
                self.assertEqual(done.stdout, "")

    def test_an_empty_value_is_refused_at_every_option(self):
        values = re.findall(r"(?m)^ +(--[a-z-]+) (?!requires|Needs)[A-Z{[]", self.serve("--help").stdout)
        self.assertIn("--dir", values)
        self.assertIn("--key-file", values)
        commands = [["serve", *before, option, ""] for option in values for before in ([], ["--dir", "d"])]
        commands += [["serve", "--listen="], ["serve", "--members", "", "--insecure"], ["status", ""],
                     *(["status", option, ""] for option in ("--password-file", "--user", "--tls-ca-cert-file", "--tls-cert-file", "--tls-key-file"))]
        for words in commands:
            with self.subTest(words):
                done = subprocess.run([kv_service.KV, *words], capture_output=True, text=True, timeout=60, cwd=self.folder, check=False)
                self.assertEqual(done.returncode, USAGE, done.stderr)

    def test_files_that_do_not_exist_are_named_before_anything_else(self):
        # Nobody listens at the other member, and the server need not ask it.
        for words in (["--members", "127.0.0.[1-2]", "--key-file", "/none/key"], ["--acl-file", "/none/users"],
                      ["--requirepass-file", "/none/password"], ["--tls-port", "0", *TLS.split(), "--tls-auth-clients", "no"], ["--dir", "/proc/none/dir"]):
            done = self.serve("--listen", "127.0.0.1" if "--members" in words else "127.0.0.1:0", *words)
            self.assertEqual(done.returncode, FAILED, done.stderr)
            self.assertIn("/none/", done.stderr)

    def test_the_help_names_the_values_and_the_defaults(self):
        text = self.serve("--help").stdout
        for part in ("always|everysec|no=everysec", "yes|no|optional=yes", "1 to 64", "=noeviction", "auto|shm|", "=2s"):
            self.assertIn(part, text)

    def test_members_without_a_port_have_the_port_of_redis(self):
        # The error names the address with its port.
        done = self.serve("--listen", "127.0.0.9:1", "--members", "127.0.0.[1-2],127.0.0.9", "--insecure")
        self.assertEqual(done.returncode, USAGE)
        self.assertIn("are 127.0.0.1:6379,127.0.0.2:6379,127.0.0.9:6379", done.stderr)

    def test_servers_that_differ_name_the_values_of_both(self):
        service = self.service(3)
        service.wait_until_whole()
        third = service.servers[2]
        third.kill()
        members = ",".join(service.addresses)
        first = service.addresses[0]
        for words, difference in ((["--min-replicas", "3", "--fabric", "udp"],
                                   f"--min-replicas is 3 here, and 2 at {first}. --fabric is udp here, and auto at {first}"),
                                  (["--dir", str(self.folder), "--appendfsync", "always"], f"--dir is given here, and missing at {first}")):
            done = self.serve("--listen", third.address, "--insecure", "--members", members, *words)
            self.assertEqual(done.returncode, FAILED, done.stderr)
            self.assertTrue(done.stderr.endswith(f"must be the same at all servers. {difference}\n"), done.stderr)

    def test_a_server_without_a_list_is_named(self):
        alone = self.service(1)
        wait_until(alone.servers[0].info, "the server answers", 60)
        own = alone.addresses[0].replace(".1:", ".2:")
        done = self.serve("--listen", own, "--insecure", "--members", f"{alone.addresses[0]},{own}")
        self.assertEqual(done.returncode, FAILED, done.stderr)
        self.assertIn(f". But {alone.addresses[0]} is alone, or has an older version", done.stderr)

    def test_the_log_tells_what_happens_to_the_service(self):
        service = self.service(3, "--maxmemory", "100mb", folder=self.folder)
        service.wait_until_whole()
        main = service.main()
        others = [server for server in service.servers if server is not main]
        connection = kv_service.Connection(main.address)
        for index in range(100):
            self.assertEqual(connection("SET", f"key{index}", "value"), "OK")
        self.assertEqual(connection("CONFIG", "SET", "maxmemory", "1gb"), "OK")
        connection.close()

        def says(pattern):
            line = r"(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z (info|warning) rdmc_kv: " + pattern + "$"
            return wait_until(lambda: re.search(line, service.complaints()), f"the log says: {pattern}", 60)

        says(r"read 0 keys, 0 bytes, from \S+ in \d+\.\d s")
        says("this server takes part now")
        says("this server is the main")
        says(f"the main is {re.escape(main.address)}")
        says("requests get answers: [23] of 3 servers have all data, and 2 are needed")
        self.assertLess(service.complaints().count("\n"), 60, "there are no lines for requests")
        others[0].process.send_signal(signal.SIGTERM)
        self.assertEqual(others[0].process.wait(60), 0)
        says(f"the server {re.escape(others[0].address)} does not take part any more: it was stopped")
        others[0].process = None
        others[0].start()
        service.wait_until_whole()
        others[0].kill()
        says(f"the server {re.escape(others[0].address)} does not take part any more: it has died, or did not answer")
        says("2 of 3 servers have all data, and 2 are needed")
        others[1].kill()
        says("requests get no answers any more: .*")
        main.process.send_signal(signal.SIGTERM)
        self.assertEqual(main.process.wait(60), 0)
        says("a signal stops this server")
        says("stopped")
        main.process = None
        for server in service.servers:
            server.start()
        service.wait_until_whole()
        says(r"read 100 keys, [1-9]\d* bytes, from \S+ in \d+\.\d s")
        says("--maxmemory and --maxmemory-policy have no effect, because the data has a limit already: 1073741824 bytes, noeviction. "
             "CONFIG SET changes it")

    def test_a_service_that_cannot_begin_names_the_servers_that_are_missing(self):
        service = self.service(3, starts=False)
        service.servers[0].start()

        def says_that_silent_are(*addresses):
            """On a busy machine, a server may take too long to reply to one question. The next message comes a minute later."""
            line = "this server does not answer requests yet: these servers cannot be asked: " + ",".join(addresses) + "; "
            wait_until(lambda: line in service.complaints(), f"the log says: {line}", 240)

        says_that_silent_are(*service.addresses[1:])
        service.servers[1].start()
        says_that_silent_are(service.addresses[2])
        service.servers[2].start()
        service.wait_until_whole()

    def test_a_server_that_gets_the_state_says_that_its_acl_file_differs(self):
        acl_file = self.folder / "users.acl"
        acl_file.write_text("user default on nopass ~* &* +@all\nuser bob on nopass ~* +@all\n")
        service = self.service(3)
        service.wait_until_whole()
        connection = kv_service.Connection(service.addresses[0])
        self.assertEqual(connection("SET", "a", "b"), "OK")
        connection.close()
        third = service.servers[2]
        third.kill()
        third.options = ("--acl-file", str(acl_file))
        third.start()
        wait_until(lambda: "the users of the service differ from those of this server's ACL file" in service.complaints(),
                   "the server reports its file", 60)

    def test_the_unit_is_one_that_systemd_takes_and_the_server_tells_systemd_when_it_is_ready(self):
        text = pathlib.Path(os.environ["RDMC_KV_UNIT"]).read_text(encoding="ascii")
        for line in ("Type=notify", "Restart=on-failure", "StateDirectory=rdmc_kv", "RestartSec=2", "StartLimitIntervalSec=0",
                     "RestartPreventExitStatus=1", "EnvironmentFile=/etc/rdmc/kv.conf", "LimitMEMLOCK=infinity"):
            self.assertIn(f"\n{line}\n", text)
        copy = self.folder / "rdmc-kv.service"
        copy.write_text(re.sub(r"(?m)^ExecStart=\S+", f"ExecStart={kv_service.KV}", text), encoding="ascii")

        def verify():
            return subprocess.run(["systemd-analyze", "verify", "--man=no", "--recursive-errors=no", str(copy)], capture_output=True,
                                  text=True, timeout=60, check=False)

        done = verify()
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        copy.write_text(copy.read_text(encoding="ascii").replace("Type=notify", "Type=notified"), encoding="ascii")
        self.assertIn("notified", verify().stderr)  # This shows that the check finds errors.
        # The options of the unit, without systemd.
        command = re.search(r"(?m)^ExecStart=\S+ (.*)$", text)[1].replace("$RDMC_KV_OPTIONS", "--listen 127.0.0.1:0")
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
            manager.bind(str(self.folder / "notify"))
            manager.settimeout(60)
            words = [word.replace("/var/lib/rdmc_kv", str(self.folder / "data")) for word in command.split()]
            with subprocess.Popen([kv_service.KV, *words], stderr=subprocess.DEVNULL,
                                  env={**os.environ, "NOTIFY_SOCKET": str(self.folder / "notify")}) as server:
                self.assertEqual(manager.recv(100), b"READY=1")
                server.send_signal(signal.SIGTERM)
                self.assertEqual(manager.recv(100), b"STOPPING=1")
                self.assertEqual(server.wait(60), 0)


if __name__ == "__main__":
    unittest.main()
