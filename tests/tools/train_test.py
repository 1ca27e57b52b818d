"""`train` as a user runs it: what it reports, and how it refuses and fails."""

import json

from cli import CliTest, main, trainyard

TINY = """
[model]
layers = 2
hidden = 32
heads = 2
vocab = 256
[batch]
global_sequences = 4
micro_sequences = 1
sequence_length = 16
[training]
precision = "fp32"
steps = 4
[run]
timeout_s = 20
[cluster]
preset = "a100-8"
[data]
format = "bytes"
files = ["FILE"]
"""


class Train(CliTest):
    def setUp(self):
        super().setUp()
        text = self.folder / "text.txt"
        text.write_text("what is planned is what is run. " * 40)
        self.tiny = self.scenario("tiny.toml", TINY.replace("FILE", str(text)))
        self.out = self.folder / "run"

    def fail(self, *arguments):
        """Standard error and the report of a run that ends with 1."""
        run = trainyard("train", self.tiny, *arguments, "--json", "-")
        self.assertEqual(run.returncode, 1, run.stderr)
        return run.stderr, json.loads(run.stdout)

    def test_a_run_leaves_its_reports(self):
        text = self.succeed("train", self.tiny, "--out", self.out, "--set", "run.log_steps=1")
        self.assertIn("step 4/4", text)
        report = json.loads((self.out / "train.json").read_text())
        self.assertEqual([step["step"] for step in report["steps"]], [1, 2, 3, 4])
        events = [json.loads(line) for line in (self.out / "metrics.jsonl").read_text().splitlines()]
        self.assertEqual([e["event"] for e in events], ["step"] * 4 + ["checkpoint"])
        self.assertEqual(len(list((self.out / "tensorboard").iterdir())), 1)

    def test_the_program_is_the_one_that_sim_simulates(self):
        real = json.loads(self.succeed("train", self.tiny, "--json", "-"))
        simulated = json.loads(self.succeed("sim", self.tiny, "--json", "-"))
        self.assertEqual(real["program_hash"], simulated["program_hash"])

    def test_a_traced_step_lies_over_the_simulated_one(self):
        ranks = ("--set", "parallel.data=2", "--set", "parallel.tensor=2")
        real, simulated = self.folder / "real.json", self.folder / "sim.json.gz"
        self.succeed("train", self.tiny, *ranks, "--trace", real, "--trace-step", 3)
        self.succeed("sim", self.tiny, *ranks, "--trace", simulated, "--trace-ranks", "all")
        out = json.loads(self.succeed("compare", simulated, real, "--json", "-"))
        self.assertEqual((out["instructions"]["only_a"], out["instructions"]["only_b"]), (0, 0))
        self.assertEqual([rank["rank"] for rank in out["ranks"]], [0, 1, 2, 3])
        # A collective ends nowhere before its last member has started.
        events = [e for e in json.loads(real.read_text())["traceEvents"] if e["ph"] == "X"]
        calls = {}
        for event in events:
            if event["args"].get("group") == "tensor":  # ranks 0 and 1, 2 and 3
                key = event["args"]["instruction"], event["pid"] // 2
                calls.setdefault(key, []).append(event)
        self.assertTrue(calls)
        for members in calls.values():
            self.assertEqual(len(members), 2)
            self.assertGreaterEqual(min(e["ts"] + e["dur"] for e in members),
                                    max(e["ts"] for e in members))
        self.assertEqual(min(e["ts"] for e in events), 0)

    def test_without_a_choice_the_last_of_few_steps_is_traced(self):
        self.succeed("train", self.tiny, "--trace", self.folder / "t.json", "--trace-limit", 5)
        text = json.loads((self.folder / "t.json").read_text())
        self.assertEqual(sum(e["ph"] == "X" for e in text["traceEvents"]), 5)

    def test_a_loss_that_is_no_number_ends_the_run_with_its_step(self):
        errors, report = self.fail("--set", "training.learning_rate=1e6", "--set",
                                   "training.clip=0", "--set", "training.steps=400",
                                   "--set", "training.weight_decay=1000")
        self.assertRegex(errors, r"step \d+: the (loss|norm of the gradients) is (nan|inf)")
        self.assertIn("step", report["failure"])

    def test_an_earlier_run_is_not_overwritten(self):
        self.succeed("train", self.tiny, "--out", self.out)
        self.assertIn("--resume", self.refused("train", self.tiny, "--out", self.out))
        more = self.succeed("train", self.tiny, "--out", self.out, "--resume", "--set",
                            "training.steps=6", "--set", "run.log_steps=1")
        self.assertIn("step 6/6", more)
        self.assertNotIn("step 4/6", more)

    def test_bad_input_is_refused_before_anything_starts(self):
        for arguments, word in (
                (("--nproc", "3"), "1 ranks"), (("--backend", "sim"), "trainyard sim"),
                (("--backend", "cuba"), "valid: cpu"), (("--resume",), "--out"),
                (("--set", 'data.files=["missing.txt"]'), "missing.txt"),
                (("--set", "data.files=[]"), "data.files"),
                (("--set", "training.steps=0"), "steps"),
                (("--out", self.out, "--resume"), "no whole checkpoint"),
                (("--trace", self.folder / "t", "--trace-step", "9"), "steps 1 to 4"),
                (("--trace", self.folder / "t", "--trace-ranks", "1"), "0 to 0"),
                (("--trace", self.folder / "none" / "t"), "none"),
                (("--weights", self.folder / "nothing"), "nothing")):
            with self.subTest(arguments=arguments):
                self.assertIn(word, self.refused("train", self.tiny, *arguments))


if __name__ == "__main__":
    main()
