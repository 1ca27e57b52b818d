#!/usr/bin/env python3
"""Fails on a C++ file that clang-format would change."""

import subprocess

from tree import files, report


def problems(root="."):
    paths = files(root, ".h", ".cpp", ".cu")
    if not paths:
        return []
    run = subprocess.run(
        ["clang-format", "--dry-run", "-Werror", "--ferror-limit=1", "--style=file", *paths],
        stderr=subprocess.PIPE, text=True, check=False,
    )
    lines = [line for line in run.stderr.splitlines() if ": error:" in line]
    return lines or ([run.stderr] if run.returncode else [])


if __name__ == "__main__":
    report(problems())
