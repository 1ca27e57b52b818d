#!/usr/bin/env python3
"""`trainyard sweep`: the whole grid, best first, reasons for the rest."""

import csv
import json

from cli import CliTest, main, trainyard

GRID = ("--over", "parallel.tensor=1,2,4,16", "--over", "parallel.pipeline=1..4",
        "--over", "parallel.data=2,4")


class Sweep(CliTest):
    def sweep(self, *arguments):
        return json.loads(self.succeed("sweep", self.small, *arguments, "--json", "-"))

    def test_every_point_is_either_feasible_or_has_a_reason(self):
        got = self.sweep(*GRID)
        self.assertEqual(len(got["layouts"]) + len(got["infeasible"]), 4 * 4 * 2)
        # 16 GPUs are tensor x pipeline x data; 8 layers divide by 1, 2 and 4 stages.
        for layout in got["layouts"]:
            point = {key: int(value) for key, value in layout["set"].items()}
            product = (point["parallel.tensor"] * point["parallel.pipeline"]
                       * point["parallel.data"])
            self.assertEqual(product, 16)
        self.assertEqual(len(got["layouts"]), 5)
        self.assertTrue(all(layout["reason"] for layout in got["infeasible"]))

    def test_best_first(self):
        mfu = [layout["mfu"] for layout in self.sweep(*GRID)["layouts"]]
        self.assertEqual(mfu, sorted(mfu, reverse=True))
        peak = [x["peak_memory_bytes"] for x in self.sweep(*GRID, "--by", "peak_memory")["layouts"]]
        self.assertEqual(peak, sorted(peak))

    def test_a_point_is_what_sim_says(self):
        best = self.sweep(*GRID)["layouts"][0]
        sets = [word for key, value in best["set"].items() for word in ("--set", f"{key}={value}")]
        self.assertEqual(self.result(*sets)["iteration_time_s"], best["iteration_time_s"])

    def test_threads_do_not_change_a_byte(self):
        one = self.succeed("sweep", self.small, *GRID, "--threads", "1", "--json", "-")
        two = self.succeed("sweep", self.small, *GRID, "--threads", "2", "--json", "-")
        self.assertEqual(one, two)

    def test_csv_and_table(self):
        path = self.folder / "grid.csv"
        text = self.succeed("sweep", self.small, *GRID, "--csv", path, "--infeasible")
        with open(path, encoding="utf-8") as file:
            rows = list(csv.DictReader(file))
        self.assertEqual(len(rows), 32)
        self.assertEqual(sum(1 for row in rows if not row["infeasible_because"]), 5)
        self.assertIn("32 layouts: 5 feasible, 27 infeasible", text)

    def test_nothing_feasible_is_a_failure(self):
        run = trainyard("sweep", self.small, "--over", "parallel.tensor=3,5")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no layout is feasible", run.stderr)

    def test_bad_grids(self):
        for over, word in (("parallel.tensr=1", "parallel.tensr"), ("parallel.tensor", "KEY=VALUES"),
                           ("parallel.tensor=4..1", "4..1"), ("parallel.tensor=1,,2", "empty"),
                           ("parallel.tensor=1..9999999", "range")):
            self.assertIn(word, self.refused("sweep", self.small, "--over", over))


if __name__ == "__main__":
    main()
