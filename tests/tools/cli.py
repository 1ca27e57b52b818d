"""Runs the program under test; its path and that of the scenarios are the first arguments."""

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

PROGRAM, SCENARIOS = sys.argv[1:3]

# 16 GPUs, 4 stages, 16 micro-batches: small enough for the sanitizers.
SMALL = """
[model]
layers = 8
hidden = 1024
heads = 16
vocab = 32000
[parallel]
tensor = 2
pipeline = 4
data = 2
[batch]
global_sequences = 32
micro_sequences = 1
sequence_length = 1024
[training]
total_tokens = 1e9
[cluster]
preset = "megascale-a100"
nodes = 2
"""


def trainyard(*arguments, **options):
    """The finished process, with text output."""
    return subprocess.run([PROGRAM, *map(str, arguments)], text=True, stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, check=False, timeout=300, **options)


class CliTest(unittest.TestCase):
    """Each test has a folder of its own with small.toml in it."""

    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.small = self.folder / "small.toml"
        self.small.write_text(SMALL)

    def scenario(self, name, text):
        """A further scenario file, to be named after small.toml."""
        path = self.folder / name
        path.write_text(text)
        return path

    def succeed(self, *arguments):
        """The standard output of a run that must end well."""
        run = trainyard(*arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        return run.stdout

    def result(self, *arguments):
        """What `sim --json -` prints."""
        return json.loads(self.succeed("sim", self.small, *arguments, "--json", "-"))

    def refused(self, *arguments):
        """The standard error of a run that must end with 2 and print nothing else."""
        run = trainyard(*arguments)
        self.assertEqual((run.returncode, run.stdout), (2, ""), run.stderr)
        return run.stderr


def main():
    unittest.main(argv=sys.argv[:1])
