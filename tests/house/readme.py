#!/usr/bin/env python3
"""Runs every `$ command` of the console blocks of every README.md at the repository root, with
the build's programs on the PATH, and compares the output line by line; a line `...` stands for
any lines. In the top README.md every figure of the text must stand in a console block or, with
its source, in readme_figures.txt. `./tools/…` commands are only looked up: the test command
itself runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tree import FOLDERS, report

FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)? ?(?:%|s\b|ms\b|[GM]i?B\b|minutes?\b|GPUs?\b)")


def blocks(text):
    """(line number, [command, expected lines]) of each command in the console blocks."""
    for block in re.finditer(r"^```console\n(.*?)^```", text, re.S | re.M):
        line = text.count("\n", 0, block.start(1)) + 1
        command = None
        for offset, content in enumerate(block[1].splitlines()):
            if content.startswith("$ "):
                if command:
                    yield command
                command = (line + offset, content[2:], [])
            elif command:
                command[2].append(content)
        if command:
            yield command


def matches(expected, actual):
    """Whether the lines agree; `...` matches any number of lines."""
    pattern = "".join(
        r"(?:[^\n]*\n)*" if line.strip() == "..." else re.escape(line.rstrip()) + "\n"
        for line in expected
    )
    return re.fullmatch(pattern, "".join(line.rstrip() + "\n" for line in actual)) is not None


def command_problem(where, command, expected, root):
    if command.startswith("./tools/"):
        program = Path(root) / command.split()[0]
        return None if os.access(program, os.X_OK) else f"{where}: {command} is not there"
    run = subprocess.run(command, shell=True, cwd=root, text=True, check=False,
                         stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
    if matches(expected, run.stdout.splitlines()):
        return None
    return f"{where}: `{command}` (exit {run.returncode}) printed instead:\n{run.stdout}"


def figure_problems(text, root):
    shown = "\n".join(re.findall(r"^```console\n(.*?)^```", text, re.S | re.M))
    listing = Path(root) / "tests/house/readme_figures.txt"
    shown += listing.read_text() if listing.exists() else ""
    prose = re.sub(r"^```.*?^```", "", text, flags=re.S | re.M)
    return [
        f"README.md: {figure} is neither printed by a command nor in readme_figures.txt"
        for figure in sorted(set(FIGURE.findall(prose)))
        if figure not in shown
    ]


def problems(root="."):
    root = Path(root)
    readmes = [root / "README.md"]
    readmes += sorted(p for folder in FOLDERS for p in (root / folder).rglob("README.md"))
    found = []
    for readme in readmes:
        if readme.is_file():
            for line, command, expected in blocks(readme.read_text()):
                where = f"{readme.relative_to(root)}:{line}"
                found.append(command_problem(where, command, expected, root))
    if readmes[0].is_file():
        found += figure_problems(readmes[0].read_text(), root)
    return [f for f in found if f]


if __name__ == "__main__":
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    report(problems())
