"""The source tree as the checkers see it."""

import sys
from pathlib import Path

FOLDERS = ("core", "network_models", "simulator", "backends", "tools", "tests", "scenarios")


def files(root, *suffixes):
    """Files of the source folders with one of the suffixes, sorted, as paths."""
    return sorted(
        path
        for folder in FOLDERS
        for path in (Path(root) / folder).rglob("*")
        if path.is_file() and path.suffix in suffixes and "__pycache__" not in path.parts
    )


def report(problems):
    """Prints every problem and ends the checker: exit code 1 when there is one."""
    for problem in problems:
        print(problem)
    sys.exit(1 if problems else 0)
