#!/usr/bin/env python3
"""Runs every `$ command` of the console blocks of every README.md at the repository root, with
the build's programs (the first argument is their folder) on the PATH, and compares its standard
output line by line; a line `...` stands for any lines. With --update, writes what they print now
into blocks without such lines. In the top README.md every figure of the text must stand in a console
block or, with its source, in readme_figures.txt. `./tools/…` commands are only looked up: the test
command itself runs them."""

import os
import re
import subprocess
import sys
from pathlib import Path

from tree import FOLDERS, report

FIGURE = re.compile(r"(?<![\w.])\d[\d,]*(?:\.\d+)? ?(?:%|s\b|ms\b|[GM]i?B\b|minutes?\b|GPUs?\b)")


def blocks(text):
    """(line number, command, expected lines) of each command in the console blocks."""
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


def run(command, root):
    return subprocess.run(command, shell=True, cwd=root, text=True, check=False,
                          stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def is_looked_up(command):
    return command.startswith("./tools/")


def command_problem(where, command, expected, root):
    if is_looked_up(command):
        program = Path(root) / command.split()[0]
        return None if os.access(program, os.X_OK) else f"{where}: {command} is not there"
    done = run(command, root)
    if matches(expected, done.stdout.splitlines()):
        return None
    return (f"{where}: `{command}` (exit {done.returncode}) printed instead:\n"
            f"{done.stdout}{done.stderr}")


def update(root="."):
    for readme in readmes(root):
        text = readme.read_text()
        for _, command, expected in blocks(text):
            if is_looked_up(command) or "..." in expected:
                continue
            done = run(command, root)
            if done.returncode > 2:  # none of the program's own exit codes
                sys.exit(f"{readme}: `{command}`: {done.stderr}")
            before = "".join(f"{line}\n" for line in [f"$ {command}", *expected])
            after = f"$ {command}\n{done.stdout}"
            text = text.replace(before, after)
        readme.write_text(text)


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


def readmes(root):
    """The first page, then those of the folders."""
    root = Path(root)
    found = [root / "README.md"]
    found += sorted(path for folder in FOLDERS for path in (root / folder).rglob("README.md"))
    return [path for path in found if path.is_file()]


def problems(root="."):
    found = []
    for readme in readmes(root):
        text = readme.read_text()
        name = readme.relative_to(root)
        for line, command, expected in blocks(text):
            found.append(command_problem(f"{name}:{line}", command, expected, root))
        if name.as_posix() == "README.md":
            found += figure_problems(text, root)
    return [f for f in found if f]


if __name__ == "__main__":
    if not os.path.isdir(sys.argv[1]):
        sys.exit(f"{sys.argv[1]}: not a directory of programs")
    os.environ["PATH"] = sys.argv[1] + os.pathsep + os.environ["PATH"]
    if sys.argv[2:] == ["--update"]:
        update()
    report(problems())
