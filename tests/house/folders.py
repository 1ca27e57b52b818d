#!/usr/bin/env python3
"""Fails on a folder without a README.md, or whose README.md does not name each of its sources."""

from pathlib import Path

from tree import FOLDERS, files, report

# Below these, one README.md describes all.
WHOLE = ("scenarios", "tests")


def problems(root="."):
    found = []
    root = Path(root)
    for folder in FOLDERS:
        if (root / folder).is_dir() and not (root / folder / "README.md").is_file():
            found.append(f"{folder}: has no README.md")
    for path in files(root, ".h", ".cpp", ".cu", ".cuh", ".py", ".sh", ".cmake"):
        if path.relative_to(root).parts[0] in WHOLE:
            continue
        readme = path.parent / "README.md"
        folder = path.parent.relative_to(root).as_posix()
        if not readme.is_file():
            found.append(f"{folder}: has no README.md")
        elif path.stem not in readme.read_text():
            found.append(f"{folder}/README.md: does not name {path.name}")
    return sorted(set(found))


if __name__ == "__main__":
    report(problems())
