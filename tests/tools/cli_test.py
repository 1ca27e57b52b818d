#!/usr/bin/env python3
"""Exit codes, and what goes to which stream."""

import os
import subprocess
from pathlib import Path

from cli import PROGRAM, CliTest, main, trainyard


class Usage(CliTest):
    def test_no_subcommand_is_bad_input(self):
        self.assertIn("subcommand", self.refused())

    def test_unknown_option_is_bad_input(self):
        self.assertIn("--nonsense", self.refused("version", "--nonsense"))

    def test_help_is_no_error(self):
        run = trainyard("--help")
        self.assertEqual((run.returncode, run.stderr), (0, ""))
        for command in ("sim", "plan", "sweep", "schema", "version"):
            self.assertIn(command, run.stdout)

    def test_version_is_three_numbers(self):
        self.assertRegex(trainyard("version").stdout, r"^trainyard \d+\.\d+\.\d+\n$")


class BadInput(CliTest):
    def test_missing_file(self):
        self.assertIn("nowhere.toml", self.refused("sim", "nowhere.toml"))

    def test_every_violation_is_listed_with_its_place(self):
        bad = self.scenario("bad.toml", "[parallel]\ntensr = 2\nzero = 7\n")
        printed = self.refused("sim", self.small, bad)
        self.assertIn("bad.toml:2", printed)
        self.assertIn("tensr", printed)
        self.assertIn("bad.toml:3", printed)
        self.assertIn("zero", printed)

    def test_every_broken_scenario_ends_with_2_and_leaves_nothing(self):
        broken = Path(__file__).parents[1] / "core/config/broken"
        files = sorted(broken.glob("*.toml"))
        self.assertGreaterEqual(len(files), 40)
        for path in files:
            with self.subTest(path.name):
                out = self.folder / path.stem
                run = trainyard("sim", path, "--out", out, "--json", self.folder / "result.json")
                self.assertEqual(run.returncode, 2, run.stderr)
                self.assertEqual(run.stdout, "")
                self.assertLess(run.stderr.count("\n"), 60, "more than a screen")
                self.assertFalse(out.exists() or (self.folder / "result.json").exists())

    def test_set_wins_over_files_and_is_checked(self):
        self.assertIn("parallel.zero", self.refused("sim", self.small, "--set", "parallel.zero=9"))

    def test_fault_on_a_rank_the_job_does_not_have(self):
        printed = self.refused("sim", self.small, "--fault", "slow rank=16 factor=2")
        self.assertIn("16", printed)

    def test_fault_that_is_no_fault(self):
        self.assertIn("slwo", self.refused("sim", self.small, "--fault", "slwo rank=1 factor=2"))

    def test_scenarios_are_found_from_any_folder(self):
        run = trainyard("plan", self.small, cwd="/")
        self.assertEqual(run.returncode, 0, run.stderr)

    def test_named_scenario_folder_is_used(self):
        environment = dict(os.environ, TRAINYARD_SCENARIOS=str(self.folder))
        run = trainyard("plan", self.small, env=environment)
        self.assertEqual(run.returncode, 2)
        self.assertIn("megascale-a100", run.stderr)


class Writing(CliTest):
    def test_unwritable_output_is_told_before_simulating(self):
        for option in ("--json", "--trace"):
            run = trainyard("sim", self.small, option, self.folder / "no" / "such" / "file")
            self.assertEqual((run.returncode, run.stdout), (2, ""))
            self.assertIn("cannot be written", run.stderr)
            self.assertNotIn("simulated", run.stderr)

    def test_a_folder_is_no_output_file(self):
        self.assertIn("directory", self.refused("sim", self.small, "--json", self.folder))

    def test_a_failed_run_leaves_old_results_and_no_pieces(self):
        old = self.folder / "result.json"
        old.write_text("old")
        self.refused("sim", self.small, "--json", old, "--set", "parallel.zero=9")
        self.refused("sim", self.small, "--json", old, "--against", self.small)
        self.assertEqual(old.read_text(), "old")
        self.assertEqual({p.name for p in self.folder.iterdir()}, {"small.toml", "result.json"})

    def test_out_writes_text_and_json(self):
        text = self.succeed("sim", self.small, "--out", self.folder / "a" / "b")
        self.assertEqual((self.folder / "a" / "b" / "sim.txt").read_text(), text)
        json = self.succeed("sim", self.small, "--json", "-")
        self.assertEqual((self.folder / "a" / "b" / "sim.json").read_text(), json)

    def test_full_standard_output_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            run = subprocess.run([PROGRAM, "sim", str(self.small)], stdout=full,
                                 stderr=subprocess.PIPE, text=True, check=False)
        self.assertEqual(run.returncode, 1)
        self.assertIn("standard output", run.stderr)


class Schema(CliTest):
    def test_names_every_section_and_explains_one_key(self):
        whole = self.succeed("schema")
        for section in ("model", "parallel", "batch", "training", "schedule", "cluster"):
            self.assertIn(section, whole)
        one = self.succeed("schema", "parallel.tensor")
        self.assertIn("tensor", one)
        self.assertLess(len(one), len(whole) / 10)

    def test_unknown_key(self):
        self.assertIn("parallel.tensr", self.refused("schema", "parallel.tensr"))


if __name__ == "__main__":
    main()
