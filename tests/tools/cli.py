"""Runs the program under test; its path and that of the scenarios are the first arguments."""

import subprocess
import sys
import unittest

PROGRAM, SCENARIOS = sys.argv[1:3]


def trainyard(*arguments, **options):
    """The finished process, with text output."""
    return subprocess.run([PROGRAM, *arguments], text=True, capture_output=True, check=False,
                          timeout=300, **options)


def main():
    unittest.main(argv=sys.argv[:1])
