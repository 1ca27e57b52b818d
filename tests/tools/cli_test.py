#!/usr/bin/env python3
"""Exit codes and what goes to which stream."""

import unittest

from cli import main, trainyard


class Usage(unittest.TestCase):
    def test_no_subcommand_is_bad_input(self):
        run = trainyard()
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn("subcommand", run.stderr)

    def test_unknown_option_is_bad_input(self):
        run = trainyard("version", "--nonsense")
        self.assertEqual((run.returncode, run.stdout), (2, ""))
        self.assertIn("--nonsense", run.stderr)

    def test_help_is_no_error(self):
        run = trainyard("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        self.assertIn("version", run.stdout)

    def test_version_is_three_numbers(self):
        self.assertRegex(trainyard("version").stdout, r"^trainyard \d+\.\d+\.\d+\n$")


if __name__ == "__main__":
    main()
