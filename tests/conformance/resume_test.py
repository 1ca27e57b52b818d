"""A training that is killed at any instant and resumed ends with the very same weights."""

import os
import random
import signal
import subprocess
import sys
import tempfile
import time
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))
from tests.conformance.checkpoint_files import newest, read_checkpoint
from tests.conformance.jobs import write_documents, write_job
from tests.tools import cli

KILLS = 30
SETTINGS = {"training.steps": 120, "run.checkpoint_steps": 1, "run.keep_checkpoints": 2,
            "run.timeout_s": 20, "model.dropout": 0.1, "parallel.data": 2, "parallel.zero": 1}


class Resume(unittest.TestCase):
    def setUp(self):
        self.folder = Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.tokens = write_documents(self.folder)

    def train(self, job, out, *more):
        run = cli.trainyard("train", job, "--out", out, *more)
        self.assertEqual(run.returncode, 0, run.stderr[-2000:])
        return read_checkpoint(newest(out))

    def kill_one(self, job, out, after):
        """Starts or resumes the run and kills all its processes `after` seconds later; True if it
        had ended by then."""
        resume = ["--resume"] if list(Path(out, "checkpoints").glob("step-*")) else []
        run = subprocess.Popen([cli.PROGRAM, "train", str(job), "--out", str(out), *resume],
                               stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
                               start_new_session=True)
        try:
            run.communicate(timeout=after)
        except subprocess.TimeoutExpired:
            os.killpg(run.pid, signal.SIGKILL)
            run.communicate()
            time.sleep(0.05)  # ranks die with their launcher
            return False
        self.assertEqual(run.returncode, 0)
        return True

    def test_thirty_kills_change_no_bit(self):
        job = write_job(self.folder / "job.toml", self.tokens, SETTINGS)
        start = time.monotonic()
        expected = self.train(job, self.folder / "whole")
        whole = time.monotonic() - start
        draw = random.Random(5)
        out, kills = self.folder / "killed", 0
        while kills < KILLS and not self.kill_one(job, out, draw.uniform(0.05, whole / 10)):
            kills += 1
        self.assertGreater(kills, KILLS // 2)
        steps = [p.name for p in Path(out, "checkpoints").glob("step-*")]
        resume = ["--resume"] if steps else []
        self.assertEqual(self.train(job, out, *resume), expected, f"{kills} kills")

    def test_another_layout_goes_on_with_the_same_samples(self):
        plain = SETTINGS | {"model.dropout": 0, "training.learning_rate_schedule": '"constant"'}
        half = write_job(self.folder / "half.toml", self.tokens, plain | {"training.steps": 8})
        whole = write_job(self.folder / "whole.toml", self.tokens, plain | {"training.steps": 16})
        other = write_job(self.folder / "other.toml", self.tokens,
                          plain | {"training.steps": 16, "parallel.data": 3, "parallel.zero": 3,
                                   "parallel.tensor": 2})
        expected = self.train(whole, self.folder / "a")
        self.train(half, self.folder / "b")
        got = self.train(other, self.folder / "b", "--resume")
        self.assertEqual(got.keys(), expected.keys())
        for name, values in expected.items():
            worst = max(abs(x - y) for x, y in zip(got[name], values, strict=True))
            self.assertLess(worst, 2e-4, name)  # layouts_test.py's bound a step, sixteen steps


if __name__ == "__main__":
    cli.main()
