#!/usr/bin/env python3
"""Tests that rdmc_bcast delivers whole files of every size to agents and to local receivers, and that its reports are
true."""
import json
import os
import pathlib
import shutil
import stat
import subprocess
import unittest

from harness import BCAST, BcastCase, ExitCode, wait_until, xxh128

BLOCK = 1 << 20


class Delivers(BcastCase):
    def test_files_of_every_size_arrive_intact(self):
        agents = self.agents(3)
        for size in (0, 1, 4095, 4096, BLOCK - 1, BLOCK, BLOCK + 1, 5 * BLOCK + 12345, 40 * BLOCK):
            source = self.file(size, f"{size}.bin", seed=size)
            done = self.send(source, f"{size}.bin", to=agents)
            self.assert_code(done, ExitCode.SUCCESS)
            for agent in agents:
                self.assert_copy(source, agent.root / source.name)

    def test_json_tells_each_receiver_and_the_sum(self):
        agents = self.agents(3)
        source = self.file(5 * BLOCK + 1)
        done = self.send(source, "copy.bin", to=agents)
        self.assert_code(done, ExitCode.SUCCESS)
        self.assertEqual(sorted(done.receivers), sorted(agent.host for agent in agents))
        for event in done.receivers.values():
            self.assertEqual((event["status"], event["bytes"]), ("ok", source.stat().st_size))
            self.assertEqual(event["digest"], xxh128(source))
            self.assertGreater(event["seconds"], 0)
        self.assertIs(done.events[-1], done.summary)
        self.assertEqual([(event["fabric"], bool(event["reason"])) for event in done.of_kind("fabric")], [("shm+udp", True)])
        self.assertEqual([done.summary[key] for key in ("ok", "failed", "refused", "bytes")],
                         [3, 0, 0, source.stat().st_size])
        self.assertGreater(done.summary["seconds"], 0)
        self.assertGreater(done.summary["goodput_gbps"], 0)

    def test_every_algorithm_delivers(self):
        agents = self.agents(4)
        racks = self.folder / "racks"
        racks.write_text("".join(f"rack{index % 2} {agent.host}\n" for index, agent in enumerate(agents)), encoding="ascii")
        source = self.file(9 * BLOCK + 4321)
        for algorithm in ("sequential", "binomial_tree", "chain", "binomial_pipeline", "hybrid", "host_pipeline", "two_trees", "host_trees", "circulant",
                          "site_trees", "auto"):
            done = self.send(source, f"{algorithm}.bin", "--algorithm", algorithm, "--topology", racks, to=agents)
            self.assert_code(done, ExitCode.SUCCESS)
            for agent in agents:
                self.assert_copy(source, agent.root / f"{algorithm}.bin")

    def test_local_receivers_get_a_directory_each(self):
        source = self.file(3 * BLOCK + 7)
        done = self.send(source, self.folder / "copies", "--local", 5)
        self.assert_code(done, ExitCode.SUCCESS)
        for index in range(5):
            self.assert_copy(source, self.folder / "copies" / str(index) / source.name)
        self.assertEqual(done.summary["ok"], 5)

    def test_progress_comes_while_it_runs_and_not_too_often(self):
        agents = self.agents(2)
        source = self.file(8 * BLOCK)
        # The transfer takes about 1.7 s.
        done = self.send(source, "copy.bin", "--limit-rate", "40m", to=agents)
        self.assert_code(done, ExitCode.SUCCESS)
        progress = done.of_kind("progress")
        self.assertGreaterEqual(len(progress), 2)
        self.assertLessEqual(len(progress), 4 * done.seconds + 1)

    def test_json_on_a_terminal_that_shows_the_text_too_has_lines_of_its_own(self):
        ours, theirs = os.openpty()
        command = [BCAST, "--json", "--local", "2", "--limit-rate", "20m", self.file(4 * BLOCK), self.folder / "copies"]
        with subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=theirs, stderr=theirs,
                              env={**self.environment, "TERM": "xterm"}) as process:
            os.close(theirs)
            shown = b""
            try:
                while piece := os.read(ours, 4096):
                    shown += piece
            except OSError:  # A terminal reports in this way that all its writers have closed it.
                pass
            finally:
                os.close(ours)
        self.assertEqual(process.returncode, ExitCode.SUCCESS, shown)
        told = [line for line in shown.decode().splitlines() if '"event"' in line]
        self.assertIn("progress", [json.loads(line)["event"] for line in told])

    def test_a_destination_that_is_a_directory_takes_the_file_under_its_name(self):
        agent = self.agent()
        (agent.root / "inbox").mkdir()
        source = self.file(1000)
        for destination, copy in (("inbox", "inbox/source.bin"), ("new/deep/", "new/deep/source.bin"),
                                  ("new/name.bin", "new/name.bin")):
            done = self.send(source, destination, to=[agent])
            self.assert_code(done, ExitCode.SUCCESS)
            self.assert_copy(source, agent.root / copy)

    def test_overwrite_replaces_and_nothing_else_does(self):
        agents = self.agents(2)
        first, second = self.file(BLOCK, "1", seed=1), self.file(BLOCK, "2", seed=2)
        self.assert_code(self.send(first, "x", to=agents), ExitCode.SUCCESS)
        refused = self.send(second, "x", to=agents)
        self.assert_code(refused, ExitCode.ALL_FAILED)
        for agent in agents:
            self.assertIn("exists", refused.receivers[agent.host]["cause"])
            self.assert_copy(first, agent.root / "x")
        self.assert_code(self.send(second, "x", "--overwrite", to=agents), ExitCode.SUCCESS)
        for agent in agents:
            self.assert_copy(second, agent.root / "x")

    def test_a_dry_run_sees_what_would_go_wrong_here(self):
        done = self.send(self.file(BLOCK), "/proc/copies", "--local", 2, "--dry-run")
        self.assert_code(done, ExitCode.ALL_FAILED)
        self.assertIn("/proc/copies/0", done.receivers)

    def test_a_dry_run_changes_nothing(self):
        agents = self.agents(2)
        source = self.file(BLOCK)
        self.assert_code(self.send(source, "x", "--dry-run", to=agents), ExitCode.SUCCESS)
        self.assert_nothing_in(*(agent.root for agent in agents))

    def test_without_a_key_both_sides_must_say_so(self):
        agent = self.agent(key=None)
        source = self.file(BLOCK)
        self.assert_code(self.send(source, "x", to=[agent], key=None), ExitCode.SUCCESS)
        self.assert_copy(source, agent.root / "x")
        keyed = self.send(source, "y", to=[agent])
        self.assertNotEqual(keyed.code, ExitCode.SUCCESS)
        self.assertFalse((agent.root / "y").exists())
        guarded = self.agent()
        self.assertNotEqual(self.send(source, "z", to=[guarded], key=None).code, ExitCode.SUCCESS)
        self.assert_nothing_in(guarded.root)


class CommandLine(BcastCase):
    def run_bcast(self, *arguments):
        return subprocess.run([BCAST, *arguments], capture_output=True, text=True, check=False, timeout=20,
                              stdin=subprocess.DEVNULL, env=self.environment)

    def test_help_and_version_go_to_stdout(self):
        for arguments in (["--help"], ["agent", "--help"], ["keygen", "--help"], ["--version"]):
            done = self.run_bcast(*arguments)
            self.assertEqual((done.returncode, done.stderr), (0, ""), arguments)
            self.assertIn("rdmc_bcast", done.stdout)

    def test_a_bad_command_line_is_named_and_ends_with_1(self):
        for arguments, named in ((["--no-such-option", "a", "b"], "--no-such-option"), (["a"], "DEST"),
                                 (["--local", "0", "a", "b"], "--local"), (["--local", "x", "a", "b"], "--local"),
                                 (["-w", "host[1-", "a", "b", "--insecure"], "host[1-"),
                                 (["-w", "127.0.0.1", "a", "b"], "--key-file"),
                                 (["--local", "2", "--limit-rate", "fast", "a", "b"], "--limit-rate")):
            done = self.run_bcast(*arguments)
            self.assertEqual((done.returncode, done.stdout), (ExitCode.USAGE, ""), arguments)
            self.assertIn(named, done.stderr)

    def test_the_key_that_the_readme_has_made_is_one_that_an_agent_takes(self):
        """Runs exactly the line of README.md, in a shell with the usual umask."""
        readme = (pathlib.Path(__file__).resolve().parents[2] / "README.md").read_text()
        line = next(line for line in readme.splitlines() if line.startswith("    rdmc_bcast keygen"))
        path = f"{pathlib.Path(BCAST).parent}:{os.environ['PATH']}"
        subprocess.run(["sh", "-c", "umask 022;" + line], cwd=self.folder, check=True, timeout=10,
                       env={**self.environment, "PATH": path})
        self.agent(key=self.folder / "key")
        again = self.run_bcast("keygen", self.folder / "key")
        self.assertEqual(again.returncode, ExitCode.LOCAL_ERROR, "a key is not replaced")
        self.assertIn("exists", again.stderr)

    def test_the_key_is_changed_while_the_agents_run(self):
        folders = [self.folder / name for name in ("sender", "one", "other")]
        for folder in folders:
            folder.mkdir()
            shutil.copy(self.key(), folder / "key")
        old = shutil.copy(self.key(), self.folder / "old")
        agents = [self.agent(key=folder / "key") for folder in folders[1:]]
        source = self.file(BLOCK)
        for step in ("add", "promote", "retire"):
            done = self.run_bcast("keygen", "--rotate", step, folders[0] / "key")
            self.assertEqual((done.returncode, done.stderr), (0, ""))
            # The key changes on one host after the other. Meanwhile every transfer must reach all hosts.
            for folder in folders[1:]:
                shutil.copy(folders[0] / "key", folder / "key.new")
                os.rename(folder / "key.new", folder / "key")
                self.assert_code(self.send(source, f"{step}-{folder.name}", to=agents, key=folders[0] / "key"), ExitCode.SUCCESS)
        refused = self.send(source, "refused", to=agents, key=old)
        self.assert_code(refused, ExitCode.ALL_REFUSED)
        self.assert_cause(refused, agents[0].host, "refused", "key", "authentication")
        nothing_added = self.run_bcast("keygen", "--rotate", "promote", folders[0] / "key")
        self.assertEqual(nothing_added.returncode, ExitCode.LOCAL_ERROR)
        self.assertIn("no key was added", nothing_added.stderr)

    def test_keys_are_new_each_time(self):
        self.assertNotEqual(self.run_bcast("keygen").stdout, self.run_bcast("keygen").stdout)

    def test_copies_get_the_permissions_of_their_source_whatever_the_umask(self):
        source = self.file(100)
        for umask in (0, 0o022, 0o077):
            with self.subTest(umask=oct(umask)):
                agent = self.agent(command_prefix=["sh", "-c", f'umask {umask:o}; exec "$@"', "sh"])
                for mode in (0o600, 0o644, 0o664, 0o755, 0o400, 0o4755, 0o2770, 0o1777):
                    os.chmod(source, mode)
                    self.assert_code(self.send(source, f"copy-{mode:o}", to=[agent]), ExitCode.SUCCESS)
                    self.assert_copy(source, agent.root / f"copy-{mode:o}")
                    local = self.folder / f"local-{umask:o}-{mode:o}"
                    self.assert_code(self.send(source, local, "--local", 1), ExitCode.SUCCESS)
                    self.assert_copy(source, local / "0" / source.name)

    def test_nobody_else_can_read_a_copy_before_it_is_complete(self):
        source = self.file(8 * BLOCK)
        os.chmod(source, 0o666)
        agent = self.agent(command_prefix=["sh", "-c", 'umask 0; exec "$@"', "sh"])
        transfer = self.start(source, "copy", "--limit-rate", "40m", to=[agent])
        wait_until(lambda: list(agent.root.glob(".copy*")), "the partial file is there")
        modes = set()
        while not (agent.root / "copy").exists() and transfer.process.poll() is None:
            for partial in agent.root.glob(".copy*"):
                try:
                    modes.add(oct(stat.S_IMODE(partial.stat().st_mode)))
                except FileNotFoundError:
                    pass  # The file already has its final name.
        self.assert_code(transfer.wait(), ExitCode.SUCCESS)
        self.assert_copy(source, agent.root / "copy")
        self.assertIn("0o600", modes)
        # The permissions change just before the file gets its final name.
        self.assertLessEqual(modes, {"0o600", "0o666"})


if __name__ == "__main__":
    unittest.main()
