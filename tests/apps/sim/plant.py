#!/usr/bin/env python3
"""Copies a source file with one planted bug: plant.py SOURCE OUTPUT OLD NEW. OLD must occur exactly once."""
import sys

source, output, old, new = sys.argv[1:5]
text = open(source, encoding="utf-8").read()
if text.count(old) != 1:
    sys.exit(f"plant.py: {source} has {text.count(old)} places like '{old}', not one: plant another bug")
with open(output, "w", encoding="utf-8") as file:
    file.write(text.replace(old, new))
