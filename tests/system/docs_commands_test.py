#!/usr/bin/env python3
"""Runs the commands of the documentation as its pages have them, on this host. documented.py says what replaces parts
of them, and what cannot run here. A command without an entry in documented.py, and an entry without a command, are
failures. docs_hosts_test.py runs the commands between hosts, and docs_launch_test.py those of launchers."""
import json
import os
import pathlib
import random
import shutil
import signal
import socket
import stat
import unittest

import docs_hosts_test
import docs_launch_test
import pages
from documented import COMMANDS, Elsewhere
from documented_case import BCAST_BYTES, BUILD, TOP, Documented, scenario
from harness import wait_until
from lab_case import lab


class Table(unittest.TestCase):
    def setUp(self):
        self.found, self.unknown = [], []
        for page in pages.documented(TOP):
            found, unknown = pages.commands(page, (TOP / page).read_text(encoding="utf-8"))
            self.found += found
            self.unknown += unknown

    def test_every_command_of_the_documentation_has_an_entry_and_every_entry_has_a_command(self):
        self.assertGreater(len(self.found), 60)
        missing = [str(line) for line in self.found if line.text not in COMMANDS]
        self.assertEqual(missing, [], "commands without an entry in documented.py")
        self.assertEqual([str(line) for line in self.unknown], [], "lines beside commands that pages.py does not know")
        there = {line.text for line in self.found}
        self.assertEqual([text for text in COMMANDS if text not in there], [], "entries whose command is on no page")

    def test_every_entry_names_a_test(self):
        tests = {getattr(getattr(case, name), "scenario", None)
                 for case in (ThisHost, docs_hosts_test.Hosts, docs_launch_test.Launchers)
                 for name in unittest.defaultTestLoader.getTestCaseNames(case)}
        self.assertEqual(tests, {entry.test for entry in COMMANDS.values()})


class ThisHost(Documented):
    """Commands that need no other host."""

    @scenario("keys")
    def test_a_key_is_made_and_changed_in_three_steps(self):
        def keys():
            return (self.folder / "key").read_text(encoding="ascii").splitlines()
        self.run_documented("rdmc_bcast keygen key")
        self.assertEqual(stat.S_IMODE((self.folder / "key").stat().st_mode), 0o600)
        first = keys()
        self.assertEqual(len(first), 1)
        self.run_documented("rdmc_bcast keygen --rotate add key")
        both = keys()
        self.assertEqual((len(both), both[:1]), (2, first))
        self.run_documented("rdmc_bcast keygen --rotate promote key")
        self.assertEqual(keys(), both[::-1])
        self.run_documented("rdmc_bcast keygen --rotate retire key")
        self.assertEqual(keys(), both[1:])

    @scenario("local")
    def test_eight_receivers_of_this_machine_have_the_file_in_folders_of_their_own(self):
        source = self.file(BCAST_BYTES, "FILE")
        self.run_documented("build/apps/bcast-cli/rdmc_bcast --local 8 FILE /tmp/copies/", values={"folder": self.folder})
        self.assertEqual(sorted(path.name for path in (self.folder / "copies").iterdir()), [str(i) for i in range(8)])
        for number in range(8):
            self.assert_copy(source, self.folder / "copies" / str(number) / "FILE")

    @scenario("sim")
    def test_the_simulator_finds_no_violation(self):
        for text in ("rdmc_sim bcast --seed 8 --members 8 --size 1M --faults all",
                     "rdmc_sim bcast --members 4096 --size 256M --rate 20g",
                     "rdmc_sim kv --seed 8 --members 3 --faults all"):
            self.assertRegex(self.run_documented(text), r"(?m)^trace_hash +\S+")

    @scenario("rank_program")
    def test_an_example_of_a_rank_program_finds_its_result_right(self):
        text = "build/apps/run/rdmc_run -n 4 -r 1 build/apps/run/rdmc_example_cg --size 500 --iterations 200"
        self.assertRegex(self.run_documented(text), r"\Achecksum [0-9a-f]{16}\n\Z")

    @scenario("determinism_check")
    def test_an_example_of_a_rank_program_is_found_send_deterministic(self):
        text = "build/apps/run/rdmc_run -n 4 --check-determinism build/apps/run/rdmc_example_cg --size 50 --iterations 8"
        self.assertRegex(self.run_documented(text), r"(?m)^send-deterministic: ")

    @scenario("kv")
    def test_one_server_and_three_servers_serve_a_client(self):
        network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        self.start("rdmc_kv serve", values={"address": f"{network}.9"})
        self.done(self.shell("rdmc_bcast keygen F"))
        text = "rdmc_kv serve --listen 10.0.0.1:6379 --members '10.0.0.[1-3]:6379' --key-file F"
        servers = {index: self.start(text, values={"network": network, "index": index}) for index in (1, 2, 3)}

        def ask(host, request):
            """Returns the reply, or "" if there is no server yet."""
            try:
                with socket.create_connection((f"{network}.{host}", 6379), timeout=5) as server:
                    server.sendall(request + b"\r\n")
                    return server.recv(4096)
            except OSError:
                return b""
        wait_until(lambda: ask(9, b"SET a b") == b"+OK\r\n", "the server that is alone answers")
        wait_until(lambda: ask(1, b"SET a c") == b"+OK\r\n", "the three servers answer")
        self.assertEqual([ask(host, b"GET a") for host in (9, 1, 2, 3)], [b"$1\r\nb\r\n"] + 3 * [b"$1\r\nc\r\n"])
        for index in (2, 3):
            servers[index].stop(signal.SIGKILL)
        for index in (2, 3):
            self.start(text, values={"network": network, "index": index})
        survivor = "rdmc_control survivor --store 10.0.0.1:16379 --key-file F"
        self.run_until(lambda: self.start(survivor, values={"network": network}), "the survivor is named")
        wait_until(lambda: ask(2, b"GET a") == b"$1\r\nc\r\n", "the service goes on with the data")
        # With directories, the data survives the death of all three servers.
        network = f"127.{random.randrange(1, 255)}.{random.randrange(1, 255)}"
        text += " --dir /var/lib/rdmc_kv"
        for request, reply in ((b"SET a d", b"+OK\r\n"), (b"GET a", b"$1\r\nd\r\n")):
            servers = [self.start(text, values={"network": network, "index": index}) for index in (1, 2, 3)]
            wait_until(lambda: ask(1, request) == reply, "the three servers with directories answer")
            for server in servers:
                server.stop(signal.SIGKILL)

    @scenario("perf")
    def test_two_processes_are_measured_over_a_memif(self):
        if os.environ["RDMC_HAS_DPDK"] != "1":
            self.due.clear()
            self.skipTest("built without DPDK")
        self.assertRegex(self.run_documented("build/bench/rdmc_perf unicast --fabric dpdk"), r'(?m)^fabric +"dpdk"$')

    def uninstalled(self):
        """As docs/programming.md says, this finds the library without an installation."""
        return {"PKG_CONFIG_PATH": str(BUILD / "meson-uninstalled"), "LD_LIBRARY_PATH": str(BUILD / "lib")}

    @scenario("sockets")
    def test_the_echo_server_and_its_client_are_compiled_and_talk(self):
        shutil.copy(TOP / "lib/socket/echo.c", self.folder)
        options = {"environment": self.uninstalled()}
        self.run_documented("cc echo.c $(pkg-config --cflags-only-I --libs rdmc) -o echo", **options)
        self.run_documented("mkdir -p ~/.config/rdmc")
        self.run_documented("rdmc_bcast keygen ~/.config/rdmc/key")
        server = self.start("./echo 127.0.0.1 7000 &", **options)
        server.wait_until(lambda: "7000" in server.output, "it listens")
        self.assertEqual(self.run_documented("./echo 127.0.0.1 7000 hello", **options), "hello")
        server.stop()

    @scenario("sockets_back")
    def test_the_echo_server_is_converted_back_to_posix(self):
        text = "sed 's/rdmc_//g; s,<rdmc/socket.h>,<unistd.h>\\n#include <poll.h>\\n#include <sys/socket.h>,'"
        with (TOP / "lib/socket/echo.c").open("rb") as source:
            back = self.run_documented(text, stdin=source)
        self.assertNotIn("rdmc", back)
        (self.folder / "back.c").write_text(back, encoding="utf-8")
        self.done(self.shell("exec cc -D_GNU_SOURCE -Werror=implicit back.c -o back"))

    @scenario("programs")
    def test_programs_are_compiled_and_linked(self):
        # The tests of the libraries compile the examples. This program has less to compile.
        (self.folder / "program.cpp").write_text("#include <rdmc/launch.hpp>\nint main() { return rdmc::launched_job() ? 0 : 1; }\n",
                                                 encoding="ascii")
        shutil.copy(TOP / "lib/socket/echo.c", self.folder / "program.c")
        for text in ("c++ program.cpp $(pkg-config --cflags --libs rdmc) -o program",
                     "cc program.c $(pkg-config --cflags-only-I --libs rdmc) -o program"):
            self.run_documented(text, environment=self.uninstalled())
            self.assertIn(str(BUILD / "lib/librdmc.so"), self.done(self.shell("exec ldd program", environment=self.uninstalled())))
            (self.folder / "program").unlink()

    @scenario("project")
    def test_a_clone_is_set_up_and_built(self):
        source = self.folder / "URL"
        (source / "tools").mkdir(parents=True)
        for name in ("check", "tools/setup", "tools/build", "tools/packages.txt"):
            shutil.copy(TOP / name, source / name)
        (source / "meson.build").write_text("project('small')\ncustom_target('done', output: 'done', "
                                            "command: ['touch', '@OUTPUT@'], build_by_default: true)\n", encoding="ascii")
        self.done(self.shell("git init -q URL && cd URL && git add . && git -c user.name=n -c user.email=e commit -q -m small"))
        query = self.bin / "dpkg-query"
        query.write_text('#!/bin/sh\nshift 2\nprintf "installed %s\\n" "$@"\n', encoding="ascii")
        query.chmod(0o755)
        self.run_documented("git clone URL rdmc")
        self.done(self.start("cd rdmc", also={"cd rdmc": "cd rdmc && test -x ./check"}))
        clone = {"folder": self.folder / "rdmc"}
        for text in ("tools/setup build", "tools/setup build check"):
            self.assertEqual(self.run_documented(text, **clone), "")
        self.run_documented("tools/build build", **clone)
        self.assertTrue((clone["folder"] / "build/done").is_file())
        self.run_documented("meson configure build -Dunity=off", **clone)
        options = json.loads((clone["folder"] / "build/meson-info/intro-buildoptions.json").read_text(encoding="utf-8"))
        self.assertEqual([option["value"] for option in options if option["name"] == "unity"], ["off"])

    @scenario("build")
    def test_targets_and_tests_of_the_build_directory_have_the_names_that_pages_use(self):
        self.run_documented("ninja -C build tests/dataplane/relay/relay_test")
        self.assertRegex(self.run_documented("meson test -C build relay/schedule", environment={"RC_PARAMS": "max_success=1", "RDMC_SEEDS": "1"}),
                         r"(?m)^Ok: +1 *$")
        listed = self.run_documented("meson test -C build --no-suite system").splitlines()
        tests = json.loads((BUILD / "meson-info/intro-tests.json").read_text(encoding="utf-8"))
        self.assertEqual(len([line for line in listed if " / " in line]),
                         len([one for one in tests if "rdmc:system" not in one["suite"]]))

    @scenario("install")
    def test_the_programs_and_the_library_are_installed(self):
        root = self.folder / "root"
        self.run_documented("meson install -C build", values={"root": root})
        programs = next(root.rglob("bin"))
        for name in ("rdmc_bcast", "rdmc_control", "rdmc_doctor", "rdmc_pingpong", "rdmc_ping"):
            self.assertRegex(self.done(self.shell(f"exec {programs / name} --version")), r"[0-9]+\.[0-9]+\.[0-9]+\n$")
        for name in ("librdmc.so", "rdmc.pc", "rdmc-store.service", "socket.h"):
            self.assertTrue(list(root.rglob(name)), name)
        self.run_documented("ldconfig", values={"libraries": next(root.rglob("librdmc.so")).parent})

    @scenario("scripts")
    def test_what_runs_elsewhere_exists_and_takes_these_words(self):
        told_by, help_of = {}, {"./check": "tools/run_checks", "build/bench/rdmc_perf": f"{BUILD}/bench/rdmc_perf rate"}
        self.assertIn('exec tools/run_checks "$@"', (TOP / "check").read_text(encoding="utf-8"))
        for text in sorted(self.due):
            entry, (script, *words) = COMMANDS[text], text.split()
            self.assertIsInstance(entry, Elsewhere)
            self.assertTrue((TOP / script).is_file() or script.startswith("build/"), script)
            self.assertIn(entry.word, (TOP / entry.file).read_text(encoding="utf-8"))
            runs = help_of.get(script, script)
            self.assertTrue(os.access(TOP / runs.split()[0], os.X_OK), script)
            if runs not in told_by:
                told_by[runs] = self.done(self.shell(f"exec {runs} --help", folder=TOP))
            for word in words:
                self.assertTrue(word.isdigit() or word in told_by[runs], f"{text}: {word} is not in its help:\n{told_by[runs]}")
            self.due.discard(text)

    @scenario("sanitizer")
    def test_the_sanitizer_has_these_options_targets_and_suites(self):
        def described(name):
            return json.loads((BUILD / f"meson-info/intro-{name}.json").read_text(encoding="utf-8"))
        options = {option["name"]: option.get("choices") for option in described("buildoptions")}
        programs = {os.path.relpath(target["filename"][0], BUILD) for target in described("targets")}
        suites = {(os.path.relpath(test["cmd"][0], BUILD), word) for test in described("tests") for word in test["cmd"][1:]}
        for text in sorted(self.due):
            entry, (program, *words) = COMMANDS[text], text.split()
            told = (TOP / entry.file).read_text(encoding="utf-8")
            self.assertIn(entry.word, told)
            while "=" in program:  # a variable of the environment
                self.assertTrue((TOP / program.rpartition("=")[2]).is_file(), program)
                program = words.pop(0)
            if program == "tools/build":
                built = words[words.index("--") + 1:]
                self.assertLessEqual(set(built), programs)
                for name, value in (word.removeprefix("-D").split("=", 1) for word in words[1:words.index("--")]):
                    self.assertIn(name, options)
                    self.assertTrue(options[name] is None or value in options[name], f"-D{name}={value}")
                    self.assertIn(f'"-D{name}={value}"', told, "not an option of ./check")
            else:
                program = program.removeprefix("build-tsan/")
                self.assertIn(program, programs)
                for suite in ",".join(word.removeprefix("--run_test=") for word in words).split(",") if words else []:
                    self.assertIn((program, f"--run_test={suite}"), suites)
            self.due.discard(text)


if __name__ == "__main__":
    lab.enter()
    unittest.main(verbosity=2)  # names the cases that are skipped, and why
