#!/usr/bin/env python3
"""`trainyard sim --trace`: a file that Perfetto reads."""

import gzip
import json

from cli import CliTest, main, trainyard


class Trace(CliTest):
    def trace(self, *arguments, name="trace.json"):
        path = self.folder / name
        run = trainyard("sim", self.small, "--trace", path, *arguments)
        self.assertEqual(run.returncode, 0, run.stderr)
        data = gzip.decompress(path.read_bytes()) if name.endswith(".gz") else path.read_bytes()
        return json.loads(data)["traceEvents"], run.stdout

    def test_holds_the_ranks_of_one_pipeline(self):
        events, _ = self.trace()
        # tensor 2, data 2, pipeline 4, innermost first: stages are 4 ranks apart.
        self.assertEqual({event["pid"] for event in events}, {0, 4, 8, 12})
        names = {e["args"]["name"] for e in events if e["name"] == "process_name"}
        self.assertIn("rank 8 (stage 2)", names)

    def test_slices_of_a_stream_do_not_overlap_and_end_in_the_step(self):
        events, _ = self.trace()
        step = self.result()["iteration_time_s"] * 1e6
        last = {}  # (start, end) of each track's latest slice
        for event in (e for e in events if e["ph"] == "X"):
            track = (event["pid"], event["tid"])
            here = (event["ts"], event["ts"] + event["dur"])
            if last.get(track) != here:  # a send and a receive in one group share their time
                self.assertGreaterEqual(event["ts"] + 0.0005, last.get(track, (0, 0))[1])
            last[track] = here
        self.assertAlmostEqual(max(end for _, end in last.values()), step, delta=0.001)

    def test_arrows_go_from_a_send_to_a_later_receive_on_the_next_stage(self):
        events, _ = self.trace()
        starts = {e["id"]: e for e in events if e["ph"] == "s"}
        ends = {e["id"]: e for e in events if e["ph"] == "f"}
        # 16 micro-batches cross 3 boundaries, down and up.
        self.assertEqual(len(starts), 2 * 3 * 16)
        self.assertEqual(starts.keys(), ends.keys())
        for name, start in starts.items():
            self.assertLess(start["ts"], ends[name]["ts"])
            self.assertEqual(abs(start["pid"] - ends[name]["pid"]), 4)

    def test_gzip(self):
        plain, _ = self.trace()
        packed, _ = self.trace(name="trace.json.gz")
        self.assertEqual(plain, packed)

    def test_chosen_ranks(self):
        events, _ = self.trace("--trace-ranks", "1,3-4")
        self.assertEqual({event["pid"] for event in events}, {1, 3, 4})

    def test_limit_keeps_the_earliest_and_is_told(self):
        events, text = self.trace("--trace-limit", "100")
        slices = [e for e in events if e["ph"] == "X"]
        self.assertTrue(0 < len(slices) <= 100)
        self.assertIn("warning: the trace", text)
        everything, _ = self.trace()
        later = sorted(e["ts"] for e in everything if e["ph"] == "X")[100]
        self.assertTrue(all(e["ts"] <= later for e in slices))

    def test_bad_ranks(self):
        for ranks in ("16", "3-", "x", "-1", "1,,2", "5-3"):
            printed = self.refused("sim", self.small, "--trace", self.folder / "t",
                                   "--trace-ranks=" + ranks)
            self.assertIn("0 to 15", printed)


if __name__ == "__main__":
    main()
