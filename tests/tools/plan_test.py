#!/usr/bin/env python3
"""`trainyard plan`: schedule, programs, memory."""

import json

from cli import CliTest, main


class Plan(CliTest):
    def test_schedule_has_a_row_a_stage_with_every_pass(self):
        text = self.succeed("plan", self.small)
        self.assertIn("sound", text)
        rows = [line for line in text.splitlines() if "F0" in line and "B15" in line]
        self.assertEqual(len(rows), 4)

    def test_program_lists_the_instructions_of_one_stage(self):
        plan = json.loads(self.succeed("plan", self.small, "--json", "-"))
        text = self.succeed("plan", self.small, "--program", "1")
        self.assertGreaterEqual(len(text.splitlines()), plan["stages"][1]["instructions"])
        self.assertIn("gemm_forward", text)

    def test_memory_in_json_is_what_the_simulator_reports(self):
        plan = json.loads(self.succeed("plan", self.small, "--json", "-"))
        result = self.result()
        self.assertEqual([stage["memory_bytes"]["peak"] for stage in plan["stages"]],
                         result["memory_bytes"]["by_stage"])
        self.assertEqual(plan["program_hash"], result["program_hash"])
        for stage in plan["stages"]:
            memory = stage["memory_bytes"]
            parts = sum(memory.values()) - memory["peak"]
            self.assertTrue(0.5 * memory["peak"] < parts <= memory["peak"], memory)

    def test_memory_table_has_a_row_a_stage(self):
        rows = self.succeed("plan", self.small, "--memory").splitlines()
        table = rows[rows.index(next(r for r in rows if r.startswith("memory by stage"))) + 1:]
        self.assertEqual([row.split()[0] for row in table], ["0", "1", "2", "3"])

    def test_graph_of_a_micro_batch(self):
        text = self.succeed("plan", self.small, "--graphviz", "3")
        self.assertTrue(text.startswith("digraph"))
        self.assertEqual(text.count("{"), text.count("}"))
        self.assertIn("->", text)

    def test_stages_and_micro_batches_out_of_range(self):
        self.assertIn("has 4", self.refused("plan", self.small, "--program", "4"))
        self.assertIn("has 16", self.refused("plan", self.small, "--graphviz", "16"))


if __name__ == "__main__":
    main()
