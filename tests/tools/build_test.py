#!/usr/bin/env python3
"""Tests that tools/build configures a build directory again when an optional package has been installed or removed
since the last time, and only then. The test uses a small project with the real meson and pkg-config. A package is a .pc
file in a directory in which both programs search."""
import os
import pathlib
import shutil
import subprocess
import tempfile
import unittest

BUILD = pathlib.Path(__file__).resolve().parents[2] / "tools/build"
PROJECT = """project('small')
dep = dependency('librdmc-test-extra', version: '>= 2', required: get_option('extra'))
configure_file(output: 'found', configuration: {'found': dep.found().to_int()}, output_format: 'nasm')
custom_target('done', output: 'done', command: ['touch', '@OUTPUT@'], build_by_default: true)
"""


class Build(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.top = pathlib.Path(folder.name)
        (self.top / "tools").mkdir()
        (self.top / "packages").mkdir()
        shutil.copy(BUILD, self.top / "tools/build")
        (self.top / "meson.build").write_text(PROJECT)
        (self.top / "meson_options.txt").write_text("option('extra', type: 'feature', value: 'auto')\n")

    def install(self, version):
        (self.top / "packages/librdmc-test-extra.pc").write_text(f"Name: extra\nDescription: extra\nVersion: {version}\n")

    def build(self, *arguments):
        """Runs tools/build and returns its output."""
        environment = {**os.environ, "PKG_CONFIG_PATH": str(self.top / "packages")}
        done = subprocess.run([self.top / "tools/build", "out", *arguments], capture_output=True, text=True, check=False,
                              env=environment, stdin=subprocess.DEVNULL, timeout=120)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        return done.stdout

    def found(self):
        return "1" in (self.top / "out/found").read_text().split()

    def test_a_package_that_is_installed_later_is_found_by_the_next_build(self):
        self.build()
        self.assertFalse(self.found())
        self.install("2.1")
        self.build()
        self.assertTrue(self.found())

    def test_one_that_is_removed_or_becomes_new_enough_is_noticed_too(self):
        self.install("1.0")
        self.build("-Dextra=auto")
        self.assertFalse(self.found())
        self.install("2.0")
        self.build("-Dextra=auto")
        self.assertTrue(self.found())
        (self.top / "packages/librdmc-test-extra.pc").unlink()
        self.build("-Dextra=auto")
        self.assertFalse(self.found())

    def test_a_directory_that_was_configured_before_packages_were_noted_is_asked_once(self):
        self.build()
        (self.top / "out/.packages").unlink()
        self.install("2.0")
        self.build()
        self.assertTrue(self.found())

    def test_nothing_is_configured_again_without_need(self):
        self.install("2.0")
        self.assertIn("The Meson build system", self.build())
        for _ in range(2):
            self.assertNotIn("The Meson build system", self.build())

    def test_an_option_stands_when_a_package_comes(self):
        self.build("-Dextra=disabled")
        self.install("2.0")
        self.build()
        self.assertFalse(self.found())


if __name__ == "__main__":
    unittest.main()
