#!/usr/bin/env python3
"""`trainyard sim`: its result, its books, its memory and its expectations."""

import json
import re

from cli import CliTest, main, trainyard

# The keys of the stable schema, in order.
KEYS = """schema scenario seed gpus iteration_time_s iteration_interval_s mfu_interval tokens_per_s mfu hfu model_flops_per_token
training_days breakdown_s memory_bytes network simulation program_hash warnings""".split()
CAUSES = """compute tensor_comm context_comm pipeline_comm data_comm bubble optimizer data_stall straggler
other""".split()


class Result(CliTest):
    def test_json_has_exactly_the_documented_keys(self):
        result = self.result()
        self.assertEqual(list(result), KEYS)
        self.assertEqual(list(result["breakdown_s"]), CAUSES)
        self.assertEqual(list(result["memory_bytes"]), ["peak", "by_stage"])
        self.assertEqual(list(result["network"]),
                         ["model", "flows", "max_link_load", "slowest_flow_fraction",
                          "busiest_link", "slowest_flow_link", "stalls", "longest_stall_s"])
        self.assertEqual(list(result["simulation"]),
                         ["instructions", "events", "wall_time_s", "peak_rss_bytes"])

    def test_figures_follow_from_the_iteration_time(self):
        result = self.result()
        # 32 sequences of 1,024 tokens a step, 16 A100s of 312 TFLOP/s, 1e9 tokens in all.
        tokens_per_s = 32 * 1024 / result["iteration_time_s"]
        self.assertAlmostEqual(result["tokens_per_s"] / tokens_per_s, 1, 12)
        mfu = result["model_flops_per_token"] * tokens_per_s / (16 * 312e12)
        self.assertAlmostEqual(result["mfu"] / mfu, 1, 12)
        self.assertAlmostEqual(result["training_days"] * 86400 * tokens_per_s / 1e9, 1, 12)
        self.assertEqual(result["gpus"], 16)

    def test_interval_holds_the_prediction_and_needs_no_luck(self):
        result = self.result()
        low, high = result["iteration_interval_s"]
        self.assertLess(low, result["iteration_time_s"])
        self.assertLess(result["iteration_time_s"], high)
        # Products alone are 6.3 % uncertain: 80 % of a normal distribution lie within 1.28 of that.
        self.assertGreater(high / low, 1.1)
        self.assertLess(high / low, 1.6)
        for slow, mfu in zip((low, high), reversed(result["mfu_interval"])):
            self.assertAlmostEqual(mfu * slow, result["mfu"] * result["iteration_time_s"], 12)
        self.assertEqual(self.result()["mfu_interval"], result["mfu_interval"])
        other = self.result("--seed", "7")["iteration_interval_s"]
        self.assertAlmostEqual(other[0] / low, 1, 1)
        self.assertIsNone(self.result("--draws", "0")["mfu_interval"])

    def test_breakdown_sums_to_the_iteration_time(self):
        result = self.result()
        self.assertAlmostEqual(sum(result["breakdown_s"].values()), result["iteration_time_s"], 9)

    def test_peak_is_that_of_the_fullest_stage(self):
        memory = self.result()["memory_bytes"]
        self.assertEqual(len(memory["by_stage"]), 4)
        self.assertEqual(memory["peak"], max(memory["by_stage"]))

    def test_times_of_the_process_are_told_only_when_asked(self):
        self.assertIsNone(self.result()["simulation"]["wall_time_s"])
        told = self.result("--timings")["simulation"]
        self.assertGreater(told["wall_time_s"], 0)
        self.assertGreater(told["peak_rss_bytes"], 1 << 20)

    def test_a_straggler_costs_time_and_is_named(self):
        alike = ("--set", "cluster.node.gpu_spread=0")
        before = self.result(*alike)
        after = self.result(*alike, "--fault", "slow rank=5 factor=1.5")
        self.assertEqual(before["breakdown_s"]["straggler"], 0)
        self.assertGreater(after["breakdown_s"]["straggler"], 0)
        self.assertGreater(after["iteration_time_s"], before["iteration_time_s"])


class FlowNetwork(CliTest):
    """`network.model = "flow"`: every message and ring between nodes on its own path."""

    def sim(self, model, *arguments):
        return self.result("--set", f"network.model={model}", *arguments)

    def test_without_contention_a_step_takes_what_ideal_says(self):
        flow, ideal = self.sim("flow"), self.sim("ideal")
        self.assertAlmostEqual(flow["iteration_time_s"] / ideal["iteration_time_s"], 1, delta=1e-3)
        self.assertGreater(flow["network"]["slowest_flow_fraction"], 0.99)
        self.assertTrue(0 < flow["network"]["max_link_load"] < 1)

    def test_tensor_groups_on_two_nodes_are_flows(self):
        """All-gathers and reduce-scatters of 16 ranks: 15/16 of 2 MiB over eight cards."""
        group = [f"--set=parallel.{key}" for key in
                 ("tensor=16", "pipeline=1", "data=1", "sequence=true")]
        flow, ideal = self.sim("flow", *group), self.sim("ideal", *group)
        self.assertGreater(flow["network"]["max_link_load"], 0)
        self.assertAlmostEqual(flow["iteration_time_s"] / ideal["iteration_time_s"], 1, delta=1e-3)
        slow = self.sim("flow", *group, "--fault", "link_slow link=nic_out:3 factor=10")
        self.assertGreater(slow["iteration_time_s"], 1.2 * flow["iteration_time_s"])
        self.assertEqual(slow["network"]["slowest_flow_link"], "cable from card 3 of node 0")

    def test_a_narrow_fabric_slows_the_step_and_names_how_far(self):
        """A node a ToR, whose one uplink has half a card's rate: flows wait for each other."""
        narrow = [f"--set=cluster.fabric.{key}" for key in
                  ("rails=1", "nodes_per_tor=1", "tors_per_pod=2", "tor_uplinks=1",
                   "uplink_gbps=100")]
        narrow, wide = self.sim("flow", *narrow), self.sim("flow")
        self.assertLess(narrow["network"]["slowest_flow_fraction"], 0.5)
        self.assertGreater(narrow["iteration_time_s"], 1.02 * wide["iteration_time_s"])
        self.assertAlmostEqual(sum(narrow["breakdown_s"].values()), narrow["iteration_time_s"], 9)

    def test_simgrid_gives_the_same_step(self):
        """Its own solver on the same paths: a fabric where flows wait for each other, to 0.1 %."""
        text = trainyard("sim", self.small, "--set", "network.model=simgrid").stderr
        if "has no network model" in text:
            self.skipTest(text)
        narrow = [f"--set=cluster.fabric.{key}" for key in
                  ("rails=1", "nodes_per_tor=1", "tors_per_pod=2", "tor_uplinks=1",
                   "uplink_gbps=100")]
        for more in (narrow, [*narrow, "--fault=link_slow link=nic_out:0 factor=5 for=20ms"]):
            ours, theirs = self.sim("flow", *more), self.sim("simgrid", *more)
            self.assertAlmostEqual(ours["iteration_time_s"] / theirs["iteration_time_s"], 1,
                                   delta=1e-3)

    def test_a_slow_cable_slows_the_step_and_a_dead_one_parts_the_network(self):
        slow = self.sim("flow", "--fault", "link_slow link=nic_out:0 factor=50")
        self.assertGreater(slow["iteration_time_s"], 1.02 * self.sim("flow")["iteration_time_s"])
        run = trainyard("sim", self.small, "--set", "network.model=flow", "--fault",
                        "link_down link=nic_out:0 converge=1ms")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no path is left from GPU 4 of node 0", run.stderr)
        self.assertIn("legal: \"flow\"",
                      self.refused("sim", self.small, "--fault", "link_down link=nic_out:0"))

    def test_flap_stalls_the_step_or_ends_it_as_nccls_timeout_says(self):
        """A second without a cable: seven timers of 67 ms give up, one of 1.07 s outlasts it."""
        flap = "--fault=flap link=nic_in:8 at=10ms down=1s converge=10s"
        run = trainyard("sim", self.small, "--set", "network.model=flow", flap, "--set",
                        "network.ib_timeout=14")
        self.assertEqual((run.returncode, run.stdout), (1, ""))
        self.assertIn("cable to card 0 of node 1 is down; the sender gave up after 7 retries, "
                      "0.067 s apart", run.stderr)
        stalled = self.sim("flow", flap, "--set", "network.ib_timeout=18")
        self.assertAlmostEqual(stalled["network"]["longest_stall_s"], 4.096e-6 * 2**18, 9)
        self.assertGreater(stalled["iteration_time_s"], 1.07)
        adaptive = self.sim("flow", flap, "--set", "network.adaptive_retransmission=true")
        self.assertLess(adaptive["network"]["longest_stall_s"], 2)
        text = self.succeed("sim", self.small, "--set", "network.model=flow", flap, "--set",
                            "network.ib_timeout=18")
        self.assertIn("stalls of flows whose packets were lost, the longest 1.074 s", text)

    def test_threads_do_not_change_a_byte(self):
        fault = ("--fault", "jitter sigma=0.05")
        self.assertEqual(self.sim("flow", *fault), self.sim("flow", *fault, "--threads", "2"))


class Repeatable(CliTest):
    def test_threads_and_folding_do_not_change_a_byte(self):
        jitter = ("--fault", "jitter sigma=0.05", "--fault", "slow rank=3 factor=1.2")
        for extra in ((), jitter):
            first = self.succeed("sim", self.small, *extra, "--json", "-")
            for option in (("--threads", "2"), ("--unfolded",), ("--threads", "1")):
                again = json.loads(self.succeed("sim", self.small, *extra, *option, "--json", "-"))
                expected = json.loads(first)
                if option == ("--unfolded",):  # the work done differs, the result does not
                    again["simulation"] = expected["simulation"]
                self.assertEqual(again, expected, option)

    def test_the_seed_decides_the_jitter(self):
        jitter = ("--fault", "jitter sigma=0.05")
        one, two = self.result(*jitter, "--seed", 1), self.result(*jitter, "--seed", 2)
        self.assertNotEqual(one["iteration_time_s"], two["iteration_time_s"])
        self.assertEqual(two["seed"], 2)


class Text(CliTest):
    def test_waterfall_goes_from_all_to_the_mfu(self):
        result = self.result()
        text = self.succeed("sim", self.small)
        self.assertIn("from peak FLOP/s to MFU", text)
        rows = re.findall(r"^- .*? (-?[\d.]+) +(-?[\d.]+) +(-?[\d.]+)$", text, re.M)
        self.assertEqual(len(rows), 13)
        lost_ms = result["iteration_time_s"] * (1 - result["mfu"]) * 1e3
        self.assertAlmostEqual(sum(float(row[0]) for row in rows), lost_ms, delta=0.0005 * 13)
        self.assertAlmostEqual(float(rows[-1][2]), result["mfu"] * 100, delta=0.1)

    def test_json_on_stdout_is_alone_there(self):
        run = trainyard("sim", self.small, "--json", "-", "--explain")
        json.loads(run.stdout)
        self.assertIn("simulated", run.stderr)

    def test_explain_lists_five_changes_largest_first(self):
        text = self.succeed("sim", self.small, "--explain")
        rows = text[text.index("what would gain most"):].splitlines()[1:]
        gains = [float(re.search(r" (-?\d+\.\d{3}) ", row)[1]) for row in rows]
        self.assertEqual(len(gains), 5)
        self.assertEqual(gains, sorted(gains, reverse=True))
        self.assertGreater(gains[0], 0)

    def test_difference_to_itself_is_nothing(self):
        earlier = self.folder / "earlier.json"
        self.succeed("sim", self.small, "--json", earlier)
        text = self.succeed("sim", self.small, "--against", earlier)
        rows = text[text.index("against small"):].splitlines()[1:]
        self.assertEqual(len(rows), 11)
        self.assertTrue(all(row.endswith("+0.000") for row in rows), rows)

    def test_difference_names_the_cause(self):
        earlier = self.folder / "earlier.json"
        self.succeed("sim", self.small, "--json", earlier)
        text = self.succeed("sim", self.small, "--against", earlier,
                            "--fault", "slow rank=0 factor=3")
        rows = text[text.index("against small"):].splitlines()[1:]
        differences = {row.split()[0]: float(row.split()[-1]) for row in rows}
        self.assertGreater(differences["straggler"], 0)
        total = differences.pop("iteration")
        self.assertAlmostEqual(sum(differences.values()), total, delta=0.0005 * 10)


class Expectations(CliTest):
    def test_met(self):
        wide = self.scenario("wide.toml", "[expect]\nmfu = [0, 1]\n")
        self.succeed("sim", self.small, wide)

    def test_missed_prints_both_numbers_and_fails(self):
        narrow = self.scenario("narrow.toml", "[expect]\nmfu = [0.98, 0.99]\n")
        run = trainyard("sim", self.small, narrow, "--json", "-")
        self.assertEqual(run.returncode, 1)
        mfu = json.loads(run.stdout)["mfu"]
        line = next(line for line in run.stderr.splitlines() if "expect.mfu" in line)
        self.assertIn("[0.98, 0.99]", line)
        self.assertIn(str(mfu)[:8], line)


class Memory(CliTest):
    # 100 GiB without recompute, 42 with; its states alone fit in 18.
    TOO_LARGE = ("--set", "model.hidden=8192", "--set", "model.heads=64",
                 "--set", "batch.sequence_length=16384", "--set", "batch.micro_sequences=4")

    def test_too_little_is_refused_with_what_would_help(self):
        printed = self.refused("sim", self.small, *self.TOO_LARGE)
        self.assertRegex(printed, r"stage 0 needs 1\d\d\.\d\d GiB of memory, the A100.* has")
        self.assertIn('training.recompute = "full" would fit', printed)
        self.assertIn("--allow-oom", printed)

    def test_a_remedy_helps(self):
        self.succeed("sim", self.small, *self.TOO_LARGE, "--set", "training.recompute=full")

    def test_allowed_it_is_a_warning(self):
        result = self.result(*self.TOO_LARGE, "--allow-oom")
        self.assertRegex(result["warnings"][0], "stage 0 needs")


if __name__ == "__main__":
    main()
