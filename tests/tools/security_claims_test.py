#!/usr/bin/env python3
"""The threat model names a test for each of its claims. Checks that each of these tests exists."""
import pathlib
import re
import unittest

TOP = pathlib.Path(__file__).resolve().parents[2]
# The name of a test. "…" stands for any part of the name. A shorter text is not the name of a test.
NAME = re.compile(r"`([a-z0-9_…]{16,})`")


def names():
    return [name for name in NAME.findall((TOP / "docs/security.md").read_text(encoding="utf-8")) if name.count("_") >= 3]


class Claims(unittest.TestCase):
    def test_every_test_that_the_threat_model_names_is_there(self):
        tests = "\n".join(path.read_text(encoding="utf-8") for pattern in ("*.cpp", "*.py") for path in sorted((TOP / "tests").rglob(pattern)))
        self.assertGreater(len(names()), 30)
        for name in names():
            pattern = r"[a-z0-9_]*".join(map(re.escape, name.split("…")))
            with self.subTest(name=name):
                self.assertRegex(tests, rf"(?:CASE\(|PROP\(|def ){pattern}\b")


if __name__ == "__main__":
    unittest.main()
