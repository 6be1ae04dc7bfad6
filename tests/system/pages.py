"""The commands that the documentation shows. They are in the indented and in the fenced code blocks of its pages."""
import dataclasses
import pathlib
import re
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "tools"))
import sources

# The first word of a command: a program or a script of this repository, or one of these programs.
OURS = re.compile(r"rdmc_[a-z_]+|(\./|build[a-z-]*/|tools/|bench/|tests/)\S+")
OTHERS = {"c++", "cc", "cd", "clang-format", "git", "ibv_rc_pingpong", "ldconfig", "meson", "mkdir", "mpirun", "ninja",
          "pkg-config", "rping", "sed", "srun", "time"}
ASSIGNMENT = re.compile(r"[A-Z_]+=")
SHELLS = {"", "bash", "console", "sh", "shell"}  # The languages of fenced blocks that can have commands.
PROMPT = re.compile(r"^[a-z0-9]*\$ ")
# A # begins a comment at the beginning of a word, and && ends a command. In quotes, both mean nothing.
UNTIL_COMMENT = re.compile(r"""(?:'[^']*'|"[^"]*"|(?<=\S)#|[^#])*""")
ONE_COMMAND = re.compile(r"""&&|((?:'[^']*'|"[^"]*"|(?!&&).)+)""")
FENCE = re.compile(r" {0,3}```+\s*(\S*)")


@dataclasses.dataclass(frozen=True)
class Line:
    """A line of a code block, and where it begins. Lines that end with a backslash are joined with the next one."""
    page: str
    number: int
    text: str

    def __str__(self):
        return f"{self.page}:{self.number}: {self.text}"


def blocks(page, text):
    """Yields the code blocks of a page that can have commands. A block is a list of lines. An indented block begins
    after an empty line."""
    block, language, after_empty, number, continues = [], None, True, 0, False

    def add(words):
        nonlocal continues
        if continues:
            last = block.pop()
            block.append(dataclasses.replace(last, text=f"{last.text} {words.strip()}"))
        elif words.strip():
            block.append(Line(page, number, words.strip()))
        continues = bool(block) and block[-1].text.endswith("\\")
        if continues:
            block[-1] = dataclasses.replace(block[-1], text=block[-1].text[:-1].rstrip())

    for line in text.splitlines():
        number += 1
        fence = FENCE.match(line)
        if language is not None and not fence:
            if language in SHELLS:
                add(line)
            continue
        if not fence and line.startswith("    ") and line.strip() and (block or after_empty):
            add(line)
            continue
        after_empty = not line.strip()
        if after_empty and not fence:
            continue  # An empty line does not end an indented block.
        if block:
            yield block
            block, continues = [], False
        if fence:
            language = None if language is not None else fence[1]
    if block:
        yield block


def parts(text):
    """Returns the commands of a line, without its prompt and its comment."""
    return [part.strip() for part in ONE_COMMAND.findall(UNTIL_COMMENT.match(PROMPT.sub("", text, count=1))[0]) if part.strip()]


def is_command(text):
    """True if the first word that is no assignment (NAME=value) is the name of a program."""
    word = next((word for word in text.split() if not ASSIGNMENT.match(word)), "")
    return word in OTHERS or OURS.fullmatch(word) is not None


def commands(page, text):
    """Returns the commands of a page, and the other lines of the blocks that contain commands. Commands that
    are joined with && are several commands."""
    found, unknown = [], []
    for block in blocks(page, text):
        lines = [dataclasses.replace(line, text=part) for line in block for part in parts(line.text)]
        if any(is_command(line.text) for line in lines):
            for line in lines:
                (found if is_command(line.text) else unknown).append(line)
    return found, unknown


def documented(top):
    """Returns the pages whose commands must be right: all pages for people who use or change rdmc. Two kinds of pages
    are not among them. The commands of docs/benchmarks.md are measurements. Decisions describe the past, and do not
    change."""
    top = pathlib.Path(top)
    readmes = [name for name in sources.tracked(top, ("README.md",)) if pathlib.Path(name).name == "README.md"]
    others = [str(path.relative_to(top)) for path in (top / "CONTRIBUTING.md", *(top / "docs").glob("*.md"))
              if path.name != "benchmarks.md"]
    return sorted({*readmes, *others})
