#!/usr/bin/env python3
"""Every published scenario is simulated and meets its own expectations."""

from pathlib import Path

from cli import SCENARIOS, CliTest, main


class Published(CliTest):
    def test_published_scenarios_meet_what_was_published(self):
        files = sorted(Path(SCENARIOS, "published").glob("*.toml"))
        runs = [file for file in files if file.name != "assumptions.toml"]
        self.assertGreater(len(runs), 5)
        for file in runs:
            self.succeed("sim", file)


if __name__ == "__main__":
    main()
