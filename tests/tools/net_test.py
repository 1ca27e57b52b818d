#!/usr/bin/env python3
"""`trainyard net`: fabrics and collectives over them."""

import json

from cli import CliTest, main, trainyard

MEGASCALE = ("--cluster", "megascale-a100")


class Topo(CliTest):
    def topo(self, *arguments):
        return json.loads(self.succeed("net", "topo", *arguments, "--json", "-"))

    def test_megascale_has_three_tiers_of_64_ports_at_full_bisection(self):
        """NSDI 2024, section 3.6: 32 ports down (split in two at the ToR) and 32 up."""
        topo = self.topo(*MEGASCALE, "--gpus", "12288")
        self.assertEqual([(t["tier"], t["switches"], t["ports_down"], t["ports_up"])
                          for t in topo["tiers"]],
                         [("ToR", 192, 64, 32), ("aggregation", 192, 32, 32), ("core", 1024, 6, 0)])
        self.assertEqual(topo["bisection_of_cards"], 1)
        self.assertEqual([pair["paths"] for pair in topo["pairs"]], [1, 32, 1024])
        self.assertAlmostEqual(sum(pair["fraction"] for pair in topo["pairs"]), 1)

    def test_llama3_pods_leave_a_seventh_of_the_bisection(self):
        """arXiv 2407.21783, section 3.3.1: 3,072 GPUs a pod, 8 pods, 1:7 above."""
        topo = self.topo("--cluster", "llama3-roce", "--gpus", "24576")
        self.assertEqual((topo["pods"], topo["tor_sets"]), (8, 1536))
        self.assertAlmostEqual(topo["bisection_of_cards"], 1.125 / 7)

    def test_a_scenario_names_the_cluster_too(self):
        self.assertEqual(self.topo(self.small)["gpus"], 16)
        self.assertIn("which cluster", self.refused("net", "topo"))

    def test_picture_has_a_box_a_tier_of_a_pod_however_large_the_fabric(self):
        text = self.succeed("net", "topo", *MEGASCALE, "--gpus", "12288", "--graphviz")
        self.assertTrue(text.startswith("graph"))
        self.assertEqual(text.count("{"), text.count("}"))
        self.assertLess(text.count("label"), 80)


class Bench(CliTest):
    def bench(self, *arguments):
        return json.loads(self.succeed("net", "bench", *arguments, "--json", "-"))

    def times(self, *arguments):
        return [row["time_s"] for row in self.bench(*arguments)["sizes"]]

    def test_a_network_without_contention_gives_what_ideal_says(self):
        """12,288 GPUs: one switch a rail, and packets spread over a fabric as wide as the cards."""
        for change in ("kind=single-switch", "adaptive_routing=true"):
            arguments = (*MEGASCALE, "--gpus", "12288", "--set", f"cluster.fabric.{change}")
            flow, ideal = self.times(*arguments), self.times(*arguments, "--model", "ideal")
            self.assertEqual(len(flow), 24)
            for ours, theirs in zip(flow, ideal):
                self.assertAlmostEqual(ours / theirs, 1, delta=0.001)

    def test_collisions_slow_the_ring_and_repeat_with_the_seed(self):
        arguments = (*MEGASCALE, "--gpus", "12288", "--sizes", "1G", "--shuffled", "--algorithm",
                     "ring")
        collided = self.bench(*arguments)
        self.assertEqual(collided, self.bench(*arguments))
        self.assertNotEqual(collided["flows"], self.bench(*arguments, "--seed", "2")["flows"])
        self.assertEqual(collided["flows"]["count"], 12288)
        self.assertLess(collided["flows"]["slowest_fraction"], 0.6)
        self.assertGreater(collided["sizes"][0]["time_s"],
                           self.times(*arguments, "--model", "ideal")[0])

    def test_neighbours_below_one_tor_leave_the_fabric_alone(self):
        """A ring leaves each of 24 ToR sets once: 8 rails x 24 uplinks upwards, as many down."""
        flows = self.bench(*MEGASCALE, "--gpus", "12288", "--sizes", "1G", "--algorithm",
                           "ring")["flows"]
        self.assertEqual(flows["slowest_fraction"], 1)
        self.assertEqual(flows["uplinks_crowded"], 0)

    def test_more_queue_pairs_help_and_polarised_hashes_hurt(self):
        arguments = (*MEGASCALE, "--gpus", "12288", "--sizes", "1G", "--shuffled")
        def slowest(*more):
            return self.bench(*arguments, *more)["flows"]["slowest_fraction"]
        plain = slowest()
        self.assertGreater(slowest("--set", "network.qps_per_connection=16"), 1.2 * plain)
        self.assertLess(slowest("--set", "cluster.fabric.polarised=true"), 0.5 * plain)

    def test_groups_side_by_side_meet_in_the_fabric(self):
        """Two jobs of 512 nodes each, their nodes mixed: each is slower than alone."""
        arguments = (*MEGASCALE, "--gpus", "4096", "--sizes", "1G", "--shuffled", "--set",
                     "cluster.nodes=1024", "--set", "cluster.fabric.tor_uplinks=16")
        alone, both = self.bench(*arguments), self.bench(*arguments, "--concurrent", "2")
        self.assertEqual(both["flows"]["count"], 2 * alone["flows"]["count"])
        self.assertGreater(both["sizes"][0]["time_s"], alone["sizes"][0]["time_s"])

    def test_one_gpu_of_each_node_uses_its_own_card(self):
        arguments = (*MEGASCALE, "--gpus", "64", "--per-node", "1", "--sizes", "1G")
        one = self.bench(*arguments)
        self.assertEqual((one["nodes"], one["flows"]["count"]), (64, 64))
        all_eight = self.bench(*arguments, "--concurrent", "8")
        self.assertEqual(all_eight["flows"]["count"], 512)
        self.assertEqual(all_eight["sizes"], one["sizes"])

    def test_a_dead_uplink_is_gone_around_and_a_slow_one_waited_for(self):
        """Two ToR sets of 64 nodes: 16 edges between them, two of them on rail 3."""
        arguments = (*MEGASCALE, "--gpus", "1024", "--sizes", "1G", "--algorithm", "ring")
        whole = self.bench(*arguments)["flows"]
        self.assertEqual(whole["uplinks_used"], 32)
        slow = [f"--link=tor_up:3:{port}=0.125" for port in range(32)]
        flows = self.bench(*arguments, *slow)["flows"]
        self.assertEqual(flows["slowest_fraction"], 0.125 * 400 / 200)
        self.assertIn("of ToR switch 3", flows["slowest_link"])
        dead = [f"--link=tor_up:3:{port}=0" for port in range(31)]
        flows = self.bench(*arguments, *dead)["flows"]
        self.assertEqual((flows["slowest_fraction"], flows["uplinks_used"]), (1, 32))
        text = self.refused("net", "bench", *arguments, *dead, "--link=tor_up:3:31=0")
        self.assertIn("GPU 3 of node 63 to GPU 3 of node 64", text)

    def test_trees_take_what_nccl_counts_for_them(self):
        """Two binary trees over 64 nodes of one switch a rail: four edges each way on a card, so an
        edge has a quarter of it and half of the data: twice the data at the card's rate."""
        arguments = (*MEGASCALE, "--gpus", "512", "--sizes", "64M:1G", "--algorithm", "tree",
                     "--set", "cluster.fabric.kind=single-switch")
        ours, ideal = self.bench(*arguments), self.times(*arguments, "--model", "ideal")
        self.assertEqual(ours["flows"]["count"], 8 * 2 * 2 * 63)
        self.assertEqual(ours["flows"]["slowest_fraction"], 0.25)
        for row, theirs in zip(ours["sizes"], ideal):
            self.assertAlmostEqual(row["time_s"] / theirs, 1, delta=0.001)

    def test_small_sizes_take_the_tree_and_large_ones_the_ring(self):
        rows = self.bench(*MEGASCALE, "--gpus", "1024", "--sizes", "1K:4G")["sizes"]
        algorithms = [row["algorithm"] for row in rows]
        self.assertEqual((algorithms[0], algorithms[-1]), ("tree", "ring"))
        for name in ("ring", "tree"):
            alone = self.bench(*MEGASCALE, "--gpus", "1024", "--sizes", "1K:4G", "--algorithm", name)
            for one, best in zip(alone["sizes"], rows):
                self.assertGreaterEqual(one["time_s"], best["time_s"])

    def test_other_models_have_the_same_rings_and_trees(self):
        """Closed forms stood in for simgrid and packet. 4 nodes below one switch a rail."""
        arguments = (*MEGASCALE, "--gpus", "32", "--sizes", "64M", "--set",
                     "cluster.fabric.kind=single-switch")
        models = [("packet", 0.02)]
        probe = trainyard("net", "bench", *arguments, "--model", "simgrid")
        if "has no network model" not in probe.stderr:
            models.append(("simgrid", 1e-6))
        for algorithm in ("ring", "tree"):
            flow = self.times(*arguments, "--algorithm", algorithm)[0]
            for model, apart in models:
                control = "none" if model == "packet" else "ideal"
                time = self.times(*arguments, "--algorithm", algorithm, "--model", model, "--set",
                                  f"network.congestion_control={control}")[0]
                self.assertAlmostEqual(time / flow, 1, delta=apart, msg=f"{algorithm} {model}")

    def test_pairs_send_to_eight_peers_at_a_time(self):
        """128 GPUs of one switch a rail: 15 batches of 8 peers and one of 7 in which some card sends
        to all of them, for 120 GPUs on other nodes: 127 / 120 of what the cards could do."""
        arguments = (*MEGASCALE, "--gpus", "128", "--sizes", "4G", "--op", "all_to_all", "--set",
                     "cluster.fabric.kind=single-switch")
        ours, ideal = self.bench(*arguments), self.times(*arguments, "--model", "ideal")
        self.assertEqual(ours["flows"]["count"], 128 * 120)
        self.assertAlmostEqual(ours["sizes"][0]["time_s"] / ideal[0], 127 / 120, delta=0.005)

    def test_a_broadcast_streams_through_the_ring(self):
        row = self.bench(*MEGASCALE, "--gpus", "64", "--op", "broadcast", "--sizes", "1G")["sizes"][0]
        self.assertEqual(row["busbw_bytes_per_s"], row["algbw_bytes_per_s"])
        reduced = self.bench(*MEGASCALE, "--gpus", "64", "--sizes", "1G")["sizes"][0]
        self.assertGreater(row["algbw_bytes_per_s"], 1.5 * reduced["algbw_bytes_per_s"])

    def test_bad_input_is_named(self):
        for arguments, word in ((("--op", "scatter"), "broadcast, all_to_all"),
                                (("--op", "all_gather", "--algorithm", "tree"), "only all_reduce"),
                                (("--algorithm", "star"), "auto, ring, tree"),
                                (("--sizes", "8G:1K"), "ends before"),
                                (("--sizes", "1T"), "no size"),
                                (("--gpus", "12"), "must divide"),
                                (("--seed", "-1"), "below 0"),
                                (("--gpus", "16", "--op", "all_to_all", "--model", "packet"),
                                 "use flow"),
                                (("--gpus", "8"), "two nodes"),
                                (("--model", "magic"), "ideal, analytic"),
                                (("--link", "spine:1=0", "--gpus", "64"), "kinds: gpu_out"),
                                (("--link", "tor_up:9999=0", "--gpus", "64"), "no such link"),
                                (("--link", "nic_in:1=2", "--gpus", "64"), "LINK=FRACTION"),
                                (("--link", "nic_in:1=0", "--model", "ideal"), "use flow"),
                                (("--link", "pcie_in:9=0", "--gpus", "64"), "PCIe to GPU 1 of node 1 is down"),
                                (("--per-node", "3", "--gpus", "24"), "must divide")):
            self.assertIn(word, self.refused("net", "bench", *MEGASCALE, *arguments))


# Half of a DGX A100 as NCCL writes it: PCIe switches of two GPUs and two cards, NVSwitch above.
TOPOLOGY = """<?xml version="1.0"?>
<system version="1">
  <cpu numaid="3" affinity="00000000" arch="x86_64" vendor="AuthenticAMD">
    <pci busid="0000:01:00.0" class="0x060400" link_speed="16.0 GT/s PCIe" link_width="16">
      <pci busid="0000:07:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="0" sm="80" rank="0" gdr="1"><nvlink target="0000:c4:00.0" count="12"/></gpu>
      </pci>
      <pci busid="0000:0f:00.0" class="0x030200" link_speed="16.0 GT/s PCIe" link_width="16">
        <gpu dev="1" sm="80" rank="1" gdr="1">
          <nvlink target="0000:c4:00.0" count="6"/><nvlink target="0000:c5:00.0" count="6"/>
        </gpu>
      </pci>
      <pci busid="0000:0c:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_0" dev="0" speed="200000" port="1" guid="0x1" gdr="1"/></nic>
      </pci>
      <pci busid="0000:12:00.0" class="0x020700" link_speed="16.0 GT/s PCIe" link_width="16">
        <nic><net name="mlx5_1" dev="1" speed="200000" port="1" guid="0x2" gdr="1"/></nic>
      </pci>
    </pci>
  </cpu>
</system>
"""


class Node(CliTest):
    def test_keys_of_a_node_come_from_nccls_topology(self):
        """12 NVLinks of 20 GB/s; 24 GB/s on 16 lanes of 16 GT/s, twice the third generation's 12."""
        path = self.folder / "topology.xml"
        path.write_text(TOPOLOGY)
        found = json.loads(self.succeed("net", "node", path, "--json", "-"))
        self.assertEqual((found["gpus"], found["nvlink_gbs"], found["pcie_gbs"]), (2, 240, 24))
        self.assertEqual((found["nics"], found["nic_gbps"], found["gpus_beside_a_card"]), (2, 200, 2))
        node = self.scenario("node.toml", self.succeed("net", "node", path))
        topo = json.loads(self.succeed("net", "topo", "--cluster", "megascale-a100", node, "--set",
                                       "cluster.nodes=64", "--json", "-"))
        self.assertEqual(topo["gpus"], 128)

    def test_broken_files_are_named(self):
        for text, word in (("", "no <system>"), ("<system><cpu></system>", "ends nothing"),
                           ("<system><cpu>", "never ends"), ("<system></system>", "no <gpu>"),
                           ("<system><pci><gpu dev=\"0\"/></pci></system>", "a number sm=")):
            path = self.folder / "topology.xml"
            path.write_text(text)
            self.assertIn(word, self.refused("net", "node", path))
        self.assertIn("cannot be read", self.refused("net", "node", self.folder / "none.xml"))


class Dcqcn(CliTest):
    def dcqcn(self, *arguments):
        return json.loads(self.succeed("net", "dcqcn", *arguments, "--json", "-"))

    def test_two_flows_rest_where_the_equations_say(self):
        """CoNEXT 2016: 40 Gb/s, two flows: 20.2 KB of queue, alpha 0.101."""
        result = self.dcqcn("--flows", "2")
        self.assertAlmostEqual(result["queue_bytes"]["fixed_point"], 20.2e3, delta=100)
        for name in ("queue_bytes", "alpha", "sum_bytes_per_s"):
            mean, rest = result[name]["mean"], result[name]["fixed_point"]
            self.assertAlmostEqual(mean / rest, 1, delta=0.02)

    def test_series_has_a_row_a_sample_and_a_column_a_flow(self):
        path = self.folder / "series.csv"
        result = self.dcqcn("--flows", "3", "--join-ms", "10", "--last-ms", "120", "--csv", path)
        rows = [line.split(",") for line in path.read_text().splitlines()]
        self.assertEqual(rows[0], ["time_us", "queue_bytes", "rate_0_gbps", "rate_1_gbps",
                                   "rate_2_gbps"])
        self.assertEqual(len(rows), 1 + 6000)
        self.assertEqual(float(rows[100][4]), 0)  # the third joins at 20 ms
        self.assertGreater(result["fair_after_s"], 0.02)
        self.assertLess(result["fair_after_s"], 0.1)

    def test_packets_and_flows_agree_on_the_victim_of_pauses(self):
        """A quarter of 40 Gb/s for each of four flows into a port, and for the one behind."""
        for model in ("packet", "flow"):
            svg, csv = self.folder / "plot.svg", self.folder / "series.csv"
            result = self.dcqcn("--model", model, "--scenario", "victim", "--flows", "5",
                                "--control", "none", "--parameters", "nvidia", "--last-ms", "20",
                                "--svg", svg, "--csv", csv)
            for flow in result["rates_gbps"]:
                self.assertAlmostEqual(flow["mean"], 10, delta=0.6)
            self.assertEqual(svg.read_text().count("<polyline"), 5 + 2 + 2)
            self.assertEqual(len(csv.read_text().splitlines()), 501)

    def test_flows_join_and_leave_and_share_what_is_there(self):
        result = self.dcqcn("--model", "flow", "--flows", "3", "--join-ms", "20", "--leave-ms",
                            "20", "--last-ms", "200")
        rates = [flow["values"] for flow in result["rates_gbps"]]
        self.assertEqual(rates[1][10], 0)
        self.assertEqual(rates[2][-1], 0)
        self.assertGreater(sum(each[350] for each in rates), 0.9 * 40)

    def test_the_fluid_model_has_one_port(self):
        self.assertIn("--model packet", self.refused("net", "dcqcn", "--scenario", "victim"))
        self.assertIn("parking-lot", self.refused("net", "dcqcn", "--scenario", "x", "--model",
                                                  "flow"))

    def test_what_is_no_number_is_refused(self):
        """--join-ms nan: the process ended by a signal."""
        for option in ("--join-ms", "--leave-ms", "--last-ms", "--gbps", "--delay-us"):
            for value in ("nan", "-1", "inf", "x"):
                self.assertIn("is no number from", self.refused("net", "dcqcn", option, value))

    def test_two_results_do_not_go_into_one_file(self):
        """Exit status 1 and "writing failed" after the run."""
        path = self.folder / "both"
        self.assertIn("one file", self.refused("net", "dcqcn", "--model", "flow", "--csv", path,
                                               "--svg", path))

    def test_unknown_parameters_are_refused(self):
        self.assertIn("paper, nvidia", self.refused("net", "dcqcn", "--parameters", "magic"))


if __name__ == "__main__":
    main()
