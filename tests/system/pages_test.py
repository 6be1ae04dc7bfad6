#!/usr/bin/env python3
"""Tests how commands are found in a page of documentation: on an example, and on the real pages."""
import pathlib
import unittest

import pages

TOP = pathlib.Path(__file__).resolve().parents[2]
EXAMPLE = r"""# A page

Inline code is no command: `rdmc_doctor --json`.
    This line continues a paragraph, and rdmc_doctor is not run.

    tools/setup build && tools/build build     # two commands, and a comment
    rdmc_bcast -w 'n[1-2]' a b | jq -c '.x # y'

    build-tsan/tests/some_test --one \
        --two

- a list

    whose second paragraph looks like a block

The two sides of a conversation:

    peer$ rping -s -a 10.0.0.2 -V
    here$ rdmc_ping -V 10.0.0.2

    # A line that is only a comment.

Their output:

    {"rdmc_ping": 1}

```sh
./echo 127.0.0.1 7000 &                 # in the background
sed 's/rdmc_//g; s,<rdmc/socket.h>,<unistd.h>\n#include <poll.h>,'

echo "which is not known"
```

```c
rdmc_release(in);
rdmc_doctor
```

```
 StoreNode   StoreNode
```
    rdmc_sim bcast
"""


class Example(unittest.TestCase):
    def test_the_commands_of_a_page_are_found_with_their_lines(self):
        found, _ = pages.commands("page.md", EXAMPLE)
        self.assertEqual([(line.number, line.text) for line in found], [
            (6, "tools/setup build"),
            (6, "tools/build build"),
            (7, "rdmc_bcast -w 'n[1-2]' a b | jq -c '.x # y'"),
            (9, "build-tsan/tests/some_test --one --two"),
            (18, "rping -s -a 10.0.0.2 -V"),
            (19, "rdmc_ping -V 10.0.0.2"),
            (28, "./echo 127.0.0.1 7000 &"),
            (29, r"sed 's/rdmc_//g; s,<rdmc/socket.h>,<unistd.h>\n#include <poll.h>,'"),
        ])
        self.assertEqual(str(found[0]), "page.md:6: tools/setup build")

    def test_what_stands_beside_a_command_and_is_not_known_is_found_too(self):
        _, unknown = pages.commands("page.md", EXAMPLE)
        self.assertEqual([(line.number, line.text) for line in unknown], [(31, 'echo "which is not known"')])

    def test_a_page_without_commands_has_none(self):
        self.assertEqual(pages.commands("page.md", ""), ([], []))
        self.assertEqual(pages.commands("page.md", "text\n\n    int main() {}\n"), ([], []))


class RealPages(unittest.TestCase):
    def test_the_pages_and_the_commands_that_everybody_reads_are_found(self):
        names = pages.documented(TOP)
        for page in ("README.md", "CONTRIBUTING.md", "docs/operators.md", "docs/sockets.md", "apps/control/README.md"):
            self.assertIn(page, names)
        self.assertNotIn("docs/benchmarks.md", names)
        texts = {line.text for page in names for line in pages.commands(page, (TOP / page).read_text(encoding="utf-8"))[0]}
        self.assertGreater(len(texts), 50)
        for text in ("./check", "rdmc_bcast keygen key", "rdmc_bcast agent --listen 10.0.0.2 --root /srv/files --key-file key",
                     "rdmc_doctor --address 10.0.0.2", "./echo 127.0.0.1 7000 hello", "rping -s -a 10.0.0.2 -V"):
            self.assertIn(text, texts)


if __name__ == "__main__":
    unittest.main()
