#!/usr/bin/env python3
"""Tests that the header check finds a header that needs an include of the files that include it. The check must also
examine changed headers again."""
import json
import pathlib
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_headers"


class CheckHeaders(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name, "a tree")
        self.out = self.root / "build"
        self.out.mkdir(parents=True)
        command = "g++ -I. -I../room -DWIDTH=8 -std=c++23 -c x.cpp"
        (self.out / "compile_commands.json").write_text(json.dumps([{"directory": str(self.out), "command": command}]))
        (self.out / "generated.h").write_text("typedef int generated;\n")
        self.write("room/whole.hpp", "#pragma once\n#include <cstdint>\n#include <generated.h>\n"
                                     "struct Whole { std::uint8_t bytes[WIDTH]; generated g; };\n")

    def write(self, name, text):
        path = self.root / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def check(self):
        done = subprocess.run([TOOL, self.out, self.root], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout

    def test_whole_headers_pass_and_are_compiled_once(self):
        self.assertEqual(self.check(), (0, "1 headers compile alone (1 compiled now)\n"))
        self.assertEqual(self.check(), (0, "1 headers compile alone (0 compiled now)\n"))

    def test_a_header_that_a_source_of_the_build_includes_first_is_not_compiled_again(self):
        entries = json.loads((self.out / "compile_commands.json").read_text())
        self.write("room/whole.cpp", '#include "room/whole.hpp"\n#include <vector>\n')
        for options, compiled in (("", 0), ("-include prelude.hpp ", 1)):
            entries[0] |= {"file": "../room/whole.cpp", "command": f"g++ -I. -I../room -DWIDTH=8 {options}-std=c++23 -c x.cpp"}
            (self.out / "compile_commands.json").write_text(json.dumps(entries))
            self.assertEqual(self.check(), (0, f"1 headers compile alone ({compiled} compiled now)\n"))

    def test_a_header_that_leans_on_its_includer_is_found_every_time(self):
        self.write("room/leans.hpp", "#pragma once\ninline std::uint8_t f() { return 0; }\n")
        for _ in range(2):
            status, said = self.check()
            self.assertEqual(status, 1)
            self.assertIn("room/leans.hpp does not compile alone", said)

    def test_a_change_below_is_noticed(self):
        self.write("room/user.hpp", '#pragma once\n#include "room/whole.hpp"\ninline Whole w;\n')
        self.assertEqual(self.check()[0], 0)
        self.write("room/whole.hpp", "#pragma once\n")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("room/user.hpp does not compile alone", said)

    def test_headers_that_are_compiled_in_one_go_do_not_help_one_another(self):
        self.write("room/name.hpp", "#pragma once\n#include <string>\n")
        self.write("room/leans.hpp", "#pragma once\ninline std::string f() { return {}; }\n")
        self.write("room/top.hpp", '#pragma once\n#include "room/name.hpp"\n#include "room/leans.hpp"\n')
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("room/leans.hpp does not compile alone", said)
        self.assertNotIn("room/top.hpp", said)
        self.assertNotIn("room/name.hpp", said)

    def test_headers_of_tests_are_left_out(self):
        self.write("tests/leans.hpp", "#pragma once\ninline std::uint8_t f() { return 0; }\n")
        self.assertEqual(self.check()[0], 0)

    def test_a_header_of_a_library_that_the_build_does_without_is_left_out(self):
        self.write("room/driver.hpp", "#pragma once\n#include <rte_eal.h>\n")
        self.write("room/user.hpp", '#pragma once\n#include "room/driver.hpp"\n')
        self.assertEqual(self.check(), (0, "1 headers compile alone (1 compiled now)\n"))

    def test_a_c_header_must_be_c(self):
        self.write("room/api.h", "namespace rdmc {}\n")
        status, said = self.check()
        self.assertEqual(status, 1)
        self.assertIn("room/api.h does not compile alone as c:", said)


if __name__ == "__main__":
    unittest.main()
