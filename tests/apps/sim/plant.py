#!/usr/bin/env python3
"""Copies a source file with planted bugs: plant.py SOURCE OUTPUT OLD NEW [OLD NEW...]. Each OLD must occur exactly once."""
import sys

source, output, *changes = sys.argv[1:]
text = open(source, encoding="utf-8").read()
for old, new in zip(changes[::2], changes[1::2]):
    if text.count(old) != 1:
        sys.exit(f"plant.py: {source} has {text.count(old)} places like '{old}', not one: plant another bug")
    text = text.replace(old, new)
with open(output, "w", encoding="utf-8") as file:
    file.write(text)
