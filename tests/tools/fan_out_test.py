#!/usr/bin/env python3
"""Tests that the demo (tools/fan_out) verifies the copies itself. It must trust neither the sender's exit code nor the
sender's digests. A script replaces the sender. It copies the file, reports, and makes the error that the test
requests."""
import os
import pathlib
import subprocess
import tempfile
import unittest

FAN_OUT = pathlib.Path(__file__).resolve().parents[2] / "tools/fan_out"
SENDER = r"""#!/bin/sh
[ "$1 $2 $3" = "--json --local 8" ] || exit 1
source=$4 copies=$5
digest=$(xxh128sum "$source" 2>/dev/null | cut -d' ' -f1)
echo '{"event":"progress","bytes":64000,"total_bytes":256000,"goodput_gbps":1.25}'
for i in 0 1 2 3 4 5 6 7; do
  mkdir -p "$copies/$i"
  cp "$source" "$copies/$i/"
  echo "{\"event\":\"receiver\",\"host\":\"127.0.1.$i:7700\",\"status\":\"ok\",\"bytes\":1,\"seconds\":0.5,\"digest\":\"$digest\",\"cause\":\"\"}"
done
copy="$copies/3/$(basename "$source")"
case $FAULT in
  corrupt) printf x | dd of="$copy" bs=1 seek=7 conv=notrunc status=none ;;
  missing) rm "$copy" ;;
esac
echo '{"event":"summary","ok":8,"failed":0,"refused":0,"bytes":1,"seconds":0.5,"goodput_gbps":1}'
[ "$FAULT" != exit ] || { echo "what went wrong" >&2; exit 3; }
"""


class FanOut(unittest.TestCase):
    def fan_out(self, fault=""):
        with tempfile.TemporaryDirectory() as folder:
            sender, source = pathlib.Path(folder, "sender"), pathlib.Path(folder, "a file")
            sender.write_text(SENDER)
            sender.chmod(0o755)
            source.write_bytes(bytes(range(256)) * 1000)
            done = subprocess.run([FAN_OUT, sender, source], capture_output=True, text=True, check=False,
                                  env={**os.environ, "FAULT": fault}, stdin=subprocess.DEVNULL, timeout=60)
            return done.returncode, done.stdout.splitlines(), done.stderr

    def test_a_line_for_each_receiver_and_the_rate(self):
        status, lines, errors = self.fan_out()
        self.assertEqual((status, len(lines)), (0, 11), errors)
        self.assertIn("25.0%", lines[1])
        for index, line in enumerate(lines[2:10]):
            self.assertRegex(line, rf"^receiver {index} 127\.0\.1\.{index}:7700 .* 0\.500 s +xxh128 [0-9a-f]{{32}} verified$")
        self.assertEqual(lines[10], "8 of 8 copies verified; 0.500 s, 0.0 Gb/s in all, 0.0 Gb/s to each")

    def test_a_wrong_copy_is_found(self):
        for fault in ("corrupt", "missing"):
            status, lines, errors = self.fan_out(fault)
            self.assertEqual(status, 1, errors)
            self.assertIn("WRONG", lines[5])
            self.assertTrue(lines[10].startswith("7 of 8 copies verified"))

    def test_a_sender_that_reports_failure_is_believed(self):
        status, _, errors = self.fan_out("exit")
        self.assertEqual((status, errors), (1, "what went wrong\n"))


if __name__ == "__main__":
    unittest.main()
