#!/usr/bin/env python3
"""`trainyard compare`: two traces of one program laid over each other."""

import gzip
import json

from cli import CliTest, main, trainyard

HASH = "00000000000000aa"


def slice_of(rank, instruction, start, duration, **more):
    """An instruction of a trace; times in microseconds."""
    arguments = {"instruction": instruction, **more}
    return {"ph": "X", "pid": rank, "tid": 0, "ts": start, "dur": duration,
            "name": "gemm_forward", "args": arguments}


def trace_of(*events, schema="trainyard-trace-1", program_hash=HASH):
    return {"displayTimeUnit": "ns",
            "otherData": {"schema": schema, "program_hash": program_hash},
            "traceEvents": list(events)}


class Compare(CliTest):
    def simulated(self, name, *arguments):
        path = self.folder / name
        self.succeed("sim", self.small, "--trace", path, "--trace-ranks", "0-15", *arguments)
        return path

    def written(self, name, trace):
        path = self.folder / name
        path.write_text(trace if isinstance(trace, str) else json.dumps(trace))
        return path

    def compared(self, a, b, *arguments):
        return json.loads(self.succeed("compare", a, b, "--json", "-", *arguments))

    def assert_times(self, pair, a, b):
        for key, time in (("a", a), ("b", b), ("difference", b - a)):
            self.assertAlmostEqual(pair[key], time, delta=1e-12)

    def test_a_trace_differs_in_nothing_from_itself(self):
        path = self.simulated("a.json")
        out = self.compared(path, path)
        self.assertEqual(out["schema"], "trainyard-compare-1")
        self.assertEqual(out["program_hash"], self.result()["program_hash"])
        self.assertEqual(out["ratio"], 1)
        self.assertAlmostEqual(out["step_time_s"]["a"], self.result()["iteration_time_s"],
                               delta=1e-9)
        self.assertEqual((out["instructions"]["only_a"], out["instructions"]["only_b"]), (0, 0))
        self.assertEqual(len(out["ranks"]), 16)
        self.assertTrue(all(c["time_s"]["difference"] == 0 for c in out["classes"]))
        self.assertTrue(all(c["share"] is None for c in out["classes"]))
        self.assertTrue(any(c["time_s"]["a"] > 0 for c in out["classes"]))
        self.assertEqual((out["most"], out["order_changes"]), ([], []))

    def test_a_slow_rank_shows_in_its_own_kernels_alone(self):
        healthy = self.simulated("a.json")
        slow = self.simulated("b.json.gz", "--fault", "slow rank=1 factor=2")
        out = self.compared(healthy, slow)
        # Some kernel time is launch latency, which a slow GPU does not lengthen: nearly twice.
        for rank in out["ranks"]:
            kernels = rank["kernels_s"]
            if rank["rank"] == 1:
                self.assertAlmostEqual(kernels["b"] / kernels["a"], 2, delta=0.05)
            else:
                self.assertEqual(kernels["difference"], 0)
        # The kernels of all ranks together grow by what those of rank 1 do.
        grown = sum(c["time_s"]["difference"] for c in out["classes"]
                    if c["stream"] == "compute" and c["class"] != "waiting")
        self.assertAlmostEqual(grown, out["ranks"][1]["kernels_s"]["difference"], delta=1e-9)
        # All of a stream's time is accounted for.
        for stream in {c["stream"] for c in out["classes"]}:
            shares = [c["share"] for c in out["classes"] if c["stream"] == stream]
            self.assertAlmostEqual(sum(shares), 1, delta=1e-9)
        text = self.succeed("compare", healthy, slow)
        lines = text.splitlines()
        first_rank = lines[[line.startswith("rank ") for line in lines].index(True) + 1]
        self.assertEqual(first_rank.split()[0], "1")

    def test_lists_as_many_instructions_as_asked_for(self):
        healthy = self.simulated("a.json")
        slow = self.simulated("b.json", "--fault", "slow rank=1 factor=2")
        out = self.compared(healthy, slow, "--top", 3)
        sizes = [abs(i["time_s"]["difference"]) for i in out["most"]]
        self.assertEqual(len(sizes), 3)
        self.assertEqual(sizes, sorted(sizes, reverse=True))

    def test_by_hand(self):
        a = self.written("a", trace_of(slice_of(0, 7, 0, 1.5, **{"pass": "forward",
                                                                 "micro_batch": 2, "chunk": 1}),
                                       slice_of(0, 9, 2, 1)))
        b = self.written("b", trace_of(slice_of(0, 9, 13, 1), slice_of(0, 7, 10, 2.5),
                                       {"ph": "M", "pid": 0, "name": "x", "args": {"name": "y"}}))
        # 7 and 9 run from 0 to 1.5 and 2 to 3 in A, from 10 to 12.5 and 13 to 14 in B.
        out = self.compared(a, b)
        self.assert_times(out["step_time_s"], 3e-6, 4e-6)
        self.assertEqual(len(out["most"]), 1)
        self.assert_times(out["most"][0].pop("time_s"), 1.5e-6, 2.5e-6)
        self.assertEqual(out["most"][0], {
            "rank": 0, "instruction": 7, "class": "gemm_forward", "stream": "compute",
            "pass": "forward", "micro_batch": 2, "chunk": 1})
        text = self.succeed("compare", a, b)
        self.assertIn("forward 2 chunk 1", text)
        self.assertIn("every stream ran in the same order", text)

    def test_reports_land_in_the_folder_asked_for(self):
        path = self.written("a", trace_of(slice_of(0, 0, 0, 1)))
        printed = self.succeed("compare", path, path, "--out", self.folder / "out")
        self.assertEqual((self.folder / "out/compare.txt").read_text(), printed)
        self.assertEqual(json.loads((self.folder / "out/compare.json").read_text()),
                         self.compared(path, path))

    def test_different_programs_are_refused_by_their_hashes(self):
        a = self.simulated("a.json")
        b = self.simulated("b.json", "--set", "model.layers=16")
        printed = self.refused("compare", a, b)
        for layers in ("8", "16"):
            self.assertIn(self.result("--set", "model.layers=" + layers)["program_hash"], printed)

    def test_damaged_files_are_refused_with_one_line_that_names_them(self):
        good = self.simulated("a.json")
        text = good.read_text()
        packed = gzip.compress(text.encode())
        one = slice_of(0, 0, 0, 1)
        bad = {
            "absent": None,
            "empty": b"",
            "cut": text[:len(text) // 2].encode(),
            "cut.gz": packed[:len(packed) // 2],
            "flipped.gz": packed[:2000] + bytes([packed[2000] ^ 255]) + packed[2001:],
            "noise": b"\x00\xff\x17 not a trace",
            "result": json.dumps(self.result()).encode(),
            "list": json.dumps([one]).encode(),
            "schema": json.dumps(trace_of(one, schema="trainyard-trace-9")).encode(),
            "no_hash": json.dumps(trace_of(one, program_hash="")).encode(),
            "no_slice": json.dumps(trace_of()).encode(),
            "twice": json.dumps(trace_of(one, one)).encode(),
            "backwards": json.dumps(trace_of(slice_of(0, 0, 0, -1))).encode(),
            "no_time": json.dumps(trace_of(slice_of(0, 0, "soon", 1))).encode(),
            "huge_time": json.dumps(trace_of(slice_of(0, 0, 1e300, 1))).encode(),
            "bad_rank": json.dumps(trace_of(slice_of(-1, 0, 0, 1))).encode(),
            "half_instruction": json.dumps(trace_of(slice_of(0, 0.5, 0, 1))).encode(),
            "bad_stream": json.dumps(trace_of({**one, "tid": 99})).encode(),
        }
        for name, content in bad.items():
            path = self.folder / name
            if content is not None:
                path.write_bytes(content)
            for pair in ((good, path), (path, good)):
                with self.subTest(name, first=pair[0] == path):
                    printed = self.refused("compare", *pair)
                    self.assertEqual(printed.count("\n"), 1, printed)
                    self.assertIn(str(path), printed)
        self.assertIn(str(self.folder), self.refused("compare", good, self.folder))

    def test_equal_runs_print_equal_bytes(self):
        a = self.simulated("a.json")
        b = self.simulated("b.json", "--fault", "slow rank=1 factor=2")
        self.assertEqual(*(trainyard("compare", a, b, "--json", "-").stdout for _ in range(2)))


if __name__ == "__main__":
    main()
