#!/usr/bin/env python3
"""Tests that the include check finds each kind of violation. Each violation is planted in its own small tree of
files."""
import pathlib
import subprocess
import tempfile
import unittest

TOOL = pathlib.Path(__file__).resolve().parents[2] / "tools/check_includes"
LEGAL = {
    "dataplane/base/types.hpp": "#include <cstdint>\n",
    "dataplane/fabric/queue_pair.hpp": '#include "dataplane/base/types.hpp"\n',
    "dataplane/fabric/fabric.hpp": '#include "dataplane/roce/wire.hpp"\n#include "dataplane/port/port.hpp"\n',
    "dataplane/port/port.hpp": '#include <sys/socket.h>\n#include "dataplane/base/types.hpp"\n',
    "dataplane/port/sim_port.hpp": '#include "dataplane/sim/heap.hpp"\n',
    "dataplane/sim/heap.hpp": "#include <queue>\n",
    "dataplane/roce/wire.hpp": '#include <sys/uio.h>\n// std::chrono is not for us\n#include "dataplane/base/types.hpp"\n',
    "dataplane/relay/relay.hpp": '#include "dataplane/fabric/queue_pair.hpp"\n',
    "controlplane/session/session.hpp": '#include "dataplane/base/types.hpp"\n#include "controlplane/session/m.pb.h"\n',
    "controlplane/session/m.proto": "",
    "lib/group/group.hpp": '#include "controlplane/session/session.hpp"\n#include "dataplane/relay/relay.hpp"\n',
    "lib/include/rdmc/group.hpp": "",
    "apps/tool/main.cpp": '#include "lib/group/group.hpp"\n#include <rdmc/group.hpp>\n#include <thread>\n',
    "bench/perf.cpp": '#include "dataplane/relay/relay.hpp"\n#include <chrono>\n',
    "tests/dataplane/relay/relay_test.cpp": '#include "dataplane/relay/relay.hpp"\n#include <thread>\n',
}


def check(extra):
    """Appends the lines of `extra` to the files of a tree without violations. Returns the exit status and the output of
    the tool for this tree."""
    with tempfile.TemporaryDirectory() as folder:
        for name in {**LEGAL, **extra}:
            path = pathlib.Path(folder, name)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(LEGAL.get(name, "") + extra.get(name, ""))
        done = subprocess.run([TOOL, folder], capture_output=True, text=True, check=False)
        return done.returncode, done.stdout


class CheckIncludes(unittest.TestCase):
    def assert_found(self, file, line, because):
        status, said = check({file: line + "\n"})
        number = LEGAL.get(file, "").count("\n") + 1
        self.assertEqual(status, 1, said)
        self.assertIn(f"{file}:{number}: ", said)
        self.assertIn(because, said)

    def test_a_tree_that_obeys_passes(self):
        status, said = check({})
        self.assertEqual(status, 0, said)

    def test_a_lower_layer_may_not_see_a_higher_one(self):
        self.assert_found("dataplane/base/types.hpp", '#include "lib/group/group.hpp"', "upward")
        self.assert_found("controlplane/session/session.hpp", '#include "lib/group/group.hpp"', "upward")
        self.assert_found("lib/group/group.hpp", '#include "apps/tool/main.cpp"', "upward")
        self.assert_found("dataplane/fabric/fabric.hpp", "#include <rdmc/group.hpp>", "upward")

    def test_the_product_sees_neither_tests_nor_benches(self):
        self.assert_found("apps/tool/main.cpp", '#include "bench/perf.cpp"', "not for the product")

    def test_rooms_of_the_dataplane_keep_their_order(self):
        self.assert_found("dataplane/roce/wire.hpp", '#include "dataplane/port/port.hpp"', "may not see dataplane/port")
        self.assert_found("dataplane/port/port.hpp", '#include "dataplane/sim/heap.hpp"', "may not see dataplane/sim")
        self.assert_found("dataplane/base/types.hpp", '#include "dataplane/sim/heap.hpp"', "may not see dataplane/sim")

    def test_the_relay_sees_the_queue_pair_and_nothing_else_of_the_fabric(self):
        self.assert_found("dataplane/relay/relay.hpp", '#include "dataplane/fabric/fabric.hpp"',
                          "may not see dataplane/fabric")

    def test_an_unknown_room_is_not_waved_through(self):
        self.assert_found("dataplane/attic/a.hpp", '#include "dataplane/base/types.hpp"', "not in the table")

    def test_pure_rooms_see_no_clock_thread_random_device_or_socket(self):
        for header in ("chrono", "thread", "random", "sys/socket.h", "netinet/in.h", "unistd.h", "liburing.h"):
            self.assert_found("dataplane/relay/relay.hpp", f"#include <{header}>", "pure")
            self.assert_found("controlplane/session/session.hpp", f"#include <{header}>", "pure")

    def test_a_process_has_one_owner_of_fabrics(self):
        call = "auto opened = fabric::open_reachable_fabric(wanted);"
        self.assert_found("lib/group/group.hpp", call, "one owner of fabrics")
        self.assert_found("apps/tool/main.cpp", call, "one owner of fabrics")
        self.assertEqual(check({"controlplane/peer/fabric_thread.cpp": call + "\n", "bench/perf.cpp": call + "\n"})[0], 0)

    def test_pure_rooms_call_no_clock(self):
        self.assert_found("dataplane/roce/wire.hpp", "auto t = std::chrono::steady_clock::now();", "handed to")
        self.assert_found("dataplane/roce/wire.hpp", "int r = rand();", "handed to")

    def test_an_impure_header_is_found_through_another_file(self):
        status, said = check({"dataplane/base/types.hpp": "#include <chrono>\n"})
        self.assertEqual(status, 1)
        self.assertIn("dataplane/relay/relay.hpp:1: <chrono> through dataplane/base/types.hpp:2", said)

    def test_paths_start_at_the_root(self):
        self.assert_found("dataplane/base/types.hpp", '#include "types.hpp"', "no file of the repository")

    def test_a_tree_without_sources_does_not_pass(self):
        with tempfile.TemporaryDirectory() as folder:
            self.assertEqual(subprocess.run([TOOL, folder], capture_output=True, check=False).returncode, 1)


if __name__ == "__main__":
    unittest.main()
