#!/usr/bin/env python3
"""run.py TRAINYARD FOLDER [--scenario FILE] [--sequences N] [--jobs N]: one step of MegaScale's 175B on
12,288 GPUs with every flow on its path, again and again with one thing about the network changed,
and writes fabric.md into FOLDER. The report of every run stays in FOLDER; one that is there is not
run again."""

import argparse
import hashlib
import json
import random
import re
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

HERE = Path(__file__).resolve().parent
SCENARIO = HERE.parent.parent / "megascale-175b-12288.toml"
GPUS = 8  # of a node

QPS = "network.qps_per_connection"
FABRIC = "cluster.fabric"


class Study:
    def __init__(self, options):
        self.program, self.folder, self.scenario = options.program, options.folder, options.scenario
        self.always = [f"batch.global_sequences={options.sequences}"] if options.sequences else []
        self.pool = ThreadPoolExecutor(options.jobs)
        self.runs = {}  # futures, by arguments
        self.folder.mkdir(parents=True, exist_ok=True)
        self.random_nodes = self.folder / "random-nodes.toml"
        self.write_placement()

    def write_placement(self):
        """The job's nodes in random order: rank r of node n runs on node order[n]."""
        topo = subprocess.run([self.program, "net", "topo", self.scenario, "--json", "-"],
                              stdout=subprocess.PIPE, check=True)
        order = list(range(json.loads(topo.stdout)["nodes"]))
        random.Random(1).shuffle(order)
        slots = [node * GPUS + gpu for node in order for gpu in range(GPUS)]
        self.random_nodes.write_text(f"[parallel]\nplacement = {slots}\n")

    def run(self, *changes, faults=(), model="flow", nodes=None):
        """Will be what `sim --json` says of a step, or {"failure": …} where NCCL gave up."""
        arguments = [f"--set={change}"
                     for change in (f"network.model={model}", *self.always, *changes)]
        arguments += [f"--fault={fault}" for fault in faults]
        if nodes:
            arguments.insert(0, str(nodes))
        key = tuple(arguments)
        if key not in self.runs:
            self.runs[key] = self.pool.submit(self.report, arguments)
        return self.runs[key]

    def report(self, arguments):
        key = hashlib.sha256("\n".join(arguments).encode()).hexdigest()[:12]
        path = self.folder / f"{key}.json"
        if not path.exists():
            done = subprocess.run(
                [self.program, "sim", self.scenario, *arguments, "--threads", "1", "--json", path],
                stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, check=False, text=True)
            if done.returncode == 1 and "NCCL error" in done.stderr:
                path.write_text(json.dumps({"failure": done.stderr.strip().splitlines()[-1]}))
            elif not path.exists():
                raise SystemExit(done.stderr)
        return json.loads(path.read_text())


def link_of(name):
    """The fault grammar's word for "uplink 3 of ToR switch 17" and the like."""
    found = re.fullmatch(r"uplink (\d+) of (ToR|aggregation) switch (\d+)(, downwards)?", name)
    if found:
        kind = ("tor" if found[2] == "ToR" else "core") + ("_down" if found[4] else "_up")
        return f"{kind}:{found[3]}:{found[1]}"
    found = re.fullmatch(r"cable (from|to) card (\d+) of node (\d+)", name)
    return f"nic_{'out' if found[1] == 'from' else 'in'}:{int(found[3]) * GPUS + int(found[2])}"


PARTS = ("tensor_comm", "pipeline_comm", "data_comm", "bubble", "straggler")


def bound(result, base):
    """What the change added to: parts of the critical path, and the link behind the slowest flow."""
    if "failure" in result:
        return result["failure"].split("failed: ")[-1]
    parts = {part: result["breakdown_s"][part] - base["breakdown_s"][part] for part in PARTS}
    moved = [f"{part.replace('_', ' ')} {1e3 * by:+.0f} ms"
             for part, by in sorted(parts.items(), key=lambda each: -abs(each[1]))
             if abs(by) >= 5e-4][:2]
    network = result["network"]
    if network["stalls"]:
        moved.append(f"{network['stalls']} stalls, the longest {network['longest_stall_s']:.2f} s")
    if network["slowest_flow_link"]:
        moved.append(f"slowest flow behind {network['slowest_flow_link']}")
    elif network["slowest_flow_fraction"] is not None:
        moved.append("slowest flow held back by its card's congestion control")
    return "; ".join(moved) or "nothing moved"


def cells(result, base):
    if "failure" in result:
        return "fails", "", "", ""
    network = result["network"]
    def percent(value):
        return "" if value is None else f"{100 * value:.0f} %"
    return (f"{result['iteration_time_s']:.3f}",
            f"{100 * (result['iteration_time_s'] / base['iteration_time_s'] - 1):+.1f} %",
            percent(network["slowest_flow_fraction"]), percent(network["max_link_load"]))


def lines_of(table, base):
    title, rows, *note = table
    yield f"\n## {title}\n"
    for sentence in note:
        yield sentence + "\n"
    yield "| | step s | over the first line | slowest flow | busiest link | what bound it |"
    yield "|---|---|---|---|---|---|"
    for name, run in rows:
        result = run.result()
        yield "| " + " | ".join((name, *cells(result, base), bound(result, base))) + " |"


def kinds_of_model(study, base):
    yield ("Base", (
        ("every flow on its path", base),
        ("no contention (`ideal`)", study.run(model="ideal")),
        ("expected collisions (`analytic`)", study.run(model="analytic"))))


def shape(study, base):
    """Questions about how the fabric is built and how jobs lie on it."""
    run = study.run
    yield ("Ports split in two, or as fast as cards", (
        ("400G uplinks above 200G cards (2 x 200G at each ToR port)", base),
        ("64 x 200G uplinks", run(f"{FABRIC}.tor_uplinks=64", f"{FABRIC}.uplink_gbps=200"))))
    yield ("Eight rails or one", (
        ("card i to ToR i of 8, 64 nodes below a set", base),
        ("all cards of 8 nodes to one ToR", run(f"{FABRIC}.rails=1", f"{FABRIC}.nodes_per_tor=8"))))
    yield ("Placement", (
        ("data-parallel rings below few ToR sets, pipelines across", base),
        ("pipelines below one ToR set, rings across",
         run('parallel.order=tensor-pipeline-data')),
        ("nodes in random order", run(nodes=study.random_nodes))))
    yield ("Queue pairs of a connection", (
        ("1, in order", base), ("4, in order", run(f"{QPS}=4")), ("16, in order", run(f"{QPS}=16")),
        ("1, random nodes", run(nodes=study.random_nodes)),
        ("4, random nodes", run(f"{QPS}=4", nodes=study.random_nodes)),
        ("packets spread over all paths, random nodes",
         run(f"{FABRIC}.adaptive_routing=true", nodes=study.random_nodes))))
    yield ("Hashes", (
        ("each switch its own seed", base),
        ("all alike (polarised)", run(f"{FABRIC}.polarised=true")),
        ("polarised, random nodes", run(f"{FABRIC}.polarised=true", nodes=study.random_nodes))))
    yield ("Oversubscription above the pods", (
        ("1:1", base), ("1:2", run(f"{FABRIC}.oversubscription=2")),
        ("1:7", run(f"{FABRIC}.oversubscription=7")),
        ("1:7, random nodes", run(f"{FABRIC}.oversubscription=7", nodes=study.random_nodes))))


def congestion(study, base):
    run = study.run
    control = "network.congestion_control"
    yield ("Congestion control", (
        ("rates fair at once", base),
        ("DCQCN, paper", run(f"{control}=dcqcn", "network.dcqcn_parameters=paper")),
        ("DCQCN, NVIDIA", run(f"{control}=dcqcn", "network.dcqcn_parameters=nvidia")),
        ("hybrid", run(f"{control}=hybrid"))))


def faults(study, base):
    def run(*list_of_faults, changes=()):
        return study.run(*changes, faults=list_of_faults)
    slowest = link_of(base.result()["network"]["slowest_flow_link"])
    yield ("One link at half speed", (
        ("all whole", base),
        ("a card's way out", run("link_slow link=nic_out:0 factor=2")),
        (f"the uplink of the slowest flow, `{slowest}`",
         run(f"link_slow link={slowest} factor=2"))))
    yield ("A dead switch", (
        ("all alive", base),
        ("an aggregation switch, known", run("switch_down switch=aggregation:0")),
        ("a core switch, known", run("switch_down switch=core:0:0")),
        ("an aggregation switch at 0.5 s, known 200 ms later",
         run("switch_down switch=aggregation:0 at=0.5s converge=200ms")),
        ("a ToR switch at 0.5 s", run("switch_down switch=tor:0 at=0.5s"))))
    flap = "flap link=nic_out:0 at=0.5s down=2s converge=10s"
    def timeout(value, *more):
        return run(flap, changes=(f"network.ib_timeout={value}", *more))
    yield ("A card's cable down for 2 s", (
        ("none", base), ("NCCL_IB_TIMEOUT 14", timeout(14)), ("18", timeout(18)), ("20", timeout(20)),
        ("20, adaptive retransmission", timeout(20, "network.adaptive_retransmission=true"))),
           "At 0.5 s, both directions; seven retries.")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("program")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--scenario", type=Path, default=SCENARIO)
    parser.add_argument("--sequences", type=int, help="a shorter step than the scenario's")
    parser.add_argument("--jobs", type=int, default=1, help="runs at a time, 250 MB each")
    options = parser.parse_args()
    study = Study(options)
    base = study.run()
    # All runs wait for their turn before the first table asks for one.
    tables = [table for part in (kinds_of_model, shape, congestion, faults)
              for table in part(study, base)]
    of_step = f", with {options.sequences} sequences a step" if options.sequences else ""
    lines = ["# The network under MegaScale's step\n",
             f"Made by `fabric/run.py`: one step of `scenarios/{options.scenario.name}`{of_step}, every "
             "message and ring between nodes a flow on its ECMP path, with one thing changed at a time. "
             "Slowest flow: its mean rate, as a part of a card's; busiest link: bytes carried, as a "
             "part of what it could carry in the whole step. What bound it: how parts of the critical "
             "path moved, and the link that held the slowest flow back."]
    for table in tables:
        lines += lines_of(table, base.result())
    (study.folder / "fabric.md").write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
