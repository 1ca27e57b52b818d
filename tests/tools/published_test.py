#!/usr/bin/env python3
"""Every published scenario is simulated and meets its own expectations."""

import json
from pathlib import Path

from cli import SCENARIOS, CliTest, main


class Published(CliTest):
    def test_published_scenarios_meet_what_was_published(self):
        files = sorted(Path(SCENARIOS, "published").glob("*.toml"))
        runs = [file for file in files if file.name != "assumptions.toml"]
        self.assertGreater(len(runs), 5)
        for file in runs:
            self.succeed("sim", file)

    def test_iteration_time_is_linear_in_micro_batches(self):
        """MLPerf v3.1, GPT-3 on 512 to 10,752 H100: 0.260 s + 0.08437 s a micro-batch to 1 % (least
        squares over the medians of seven logs)."""
        scenario = Path(SCENARIOS, "published", "mlperf-gpt3-8192.toml")
        time = {}
        for micro_batches in (8, 16, 64):
            said = self.succeed("sim", scenario, "--set", f"batch.global_sequences={256 * micro_batches}",
                                "--set", "expect.iteration_time_s=[0,100]", "--draws", 0, "--json", "-")
            time[micro_batches] = json.loads(said)["iteration_time_s"]
        slope = (time[64] - time[8]) / 56
        start = time[8] - 8 * slope
        self.assertLess(abs(start + 16 * slope - time[16]), 0.01 * time[16])
        self.assertLess(abs(start / 0.260 - 1), 0.15)
        self.assertLess(abs(slope / 0.08437 - 1), 0.03)


if __name__ == "__main__":
    main()
