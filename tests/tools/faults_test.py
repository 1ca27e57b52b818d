"""Trainings that meet trouble, as their users meet it: each ends with its documented code and a last
line that says which rank and why, leaves no process, and can be resumed from its last checkpoint
with not a bit lost."""

import contextlib
import os
import re
import signal
import socket
import subprocess
import sys
import threading
import time
import unittest
from pathlib import Path

from cli import PROGRAM, CliTest, main, trainyard

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "conformance"))
from checkpoint_files import newest, read_checkpoint
from jobs import write_documents

RANKS, CORES = 4, len(os.sched_getaffinity(0))
IMPATIENT = ("--set", "run.timeout_s=2")  # where a time-out is what is tried
JOB = """
[model]
layers = 2
hidden = 32
heads = 2
vocab = 256
[parallel]
pipeline = 2
data = 2
zero = 1
[batch]
global_sequences = 4
micro_sequences = 1
sequence_length = 16
[training]
precision = "fp32"
learning_rate_schedule = "constant"
steps = 100000
[run]
timeout_s = 60
checkpoint_steps = 2
threads = 1
[cluster]
preset = "a100-8"
[data]
format = "bytes"
files = ["FILE"]
"""


@contextlib.contextmanager
def service(answer=None):
    """The port of something on this machine that is no Redis server, and the answer it gives."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        def serve():
            with contextlib.suppress(OSError):
                while answer:
                    connection, _ = listener.accept()
                    connection.recv(1)
                    connection.sendall(answer)
                    connection.close()
        threading.Thread(target=serve, daemon=True).start()
        yield listener.getsockname()[1]
        listener.shutdown(socket.SHUT_RDWR)


class Faults(CliTest):
    def setUp(self):
        super().setUp()
        text = self.folder / "text.txt"
        text.write_text("what is planned is what is run. " * 40)
        self.job = self.scenario("job.toml", JOB.replace("FILE", str(text)))
        self.out = self.folder / "run"

    def tearDown(self):
        self.assertEqual(self.ranks(), {}, "processes of the run are left")

    def ranks(self):
        """Rank -> process of all that run this test's job."""
        found = {}
        for process in Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                if str(self.job).encode() in (process / "cmdline").read_bytes():
                    for variable in (process / "environ").read_bytes().split(b"\0"):
                        if variable.startswith(b"TRAINYARD_RANK="):
                            found[int(variable[15:])] = int(process.name)
        return found

    def disk(self, options):
        """A small disk of its own; skips the test where that is not allowed."""
        folder = self.folder / "disk"
        folder.mkdir()
        done = subprocess.run(["mount", "-t", "tmpfs", "-o", options, "tmpfs", folder],
                              check=False, stderr=subprocess.PIPE, text=True)
        if done.returncode != 0:
            self.skipTest(f"needs the right to mount: {done.stderr.strip()}")
        self.addCleanup(subprocess.run, ["umount", folder], check=True)
        return folder

    def start(self, *arguments, **variables):
        return subprocess.Popen([PROGRAM, "train", self.job, *map(str, arguments)], text=True,
                                stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                                env={**os.environ, **variables})

    def expect_end(self, run, code, cause):
        """The run ends with `code` and says `cause` last; then which ranks had to be stopped, if
        others than the cause took long to end, as slow builds do."""
        _, errors = run.communicate(timeout=60)
        self.assertEqual(run.returncode, code, errors)
        lines = errors.splitlines()
        self.assertRegex(lines[-1], re.sub(r"\$$", r"(; stopped then: rank [\\d, ]+)?$", cause))
        self.assertLessEqual(len(lines), RANKS + 1, errors)

    def fail(self, code, cause, *arguments, **variables):
        self.expect_end(self.start(*arguments, **variables), code, cause)

    def start_training(self, *arguments):
        """A run with a checkpoint behind it."""
        run = self.start("--out", self.out, *arguments)
        while not list(self.out.glob("checkpoints/step-*")):
            self.assertIsNone(run.poll())
            time.sleep(0.01)
        return run

    def expect_resumable(self):
        """From its newest checkpoint the run goes on as one that nothing happened to."""
        steps = int(newest(self.out).name.split("-")[1]) + 2
        whole = self.folder / "whole"
        for arguments in (("--out", self.out, "--resume"), ("--out", whole)):
            self.succeed("train", self.job, *arguments, "--set", f"training.steps={steps}")
        self.assertEqual(read_checkpoint(newest(self.out)), read_checkpoint(newest(whole)))

    @unittest.skipIf(RANKS % CORES and CORES < RANKS, "four ranks do not share these cores evenly")
    def test_every_thread_of_a_rank_keeps_to_the_ranks_cores(self):
        run = self.start_training()
        cores, each = sorted(os.sched_getaffinity(0)), max(1, CORES // RANKS)
        for rank, process in self.ranks().items():
            share = {cores[(rank * each + i) % CORES] for i in range(each)}
            threads = [int(task.name) for task in Path(f"/proc/{process}/task").iterdir()]
            self.assertGreater(len(threads), 1)
            for thread in threads:
                with contextlib.suppress(ProcessLookupError):  # of a checkpoint that is written
                    self.assertEqual(os.sched_getaffinity(thread), share)
        os.kill(self.ranks()[0], signal.SIGKILL)
        self.expect_end(run, 1, r"^trainyard: rank 0 was killed")

    def test_a_killed_rank(self):
        run = self.start_training()
        os.kill(self.ranks()[2], signal.SIGKILL)
        self.expect_end(run, 1, r"^trainyard: rank 2 was killed by signal 9 \(SIGKILL\)$")
        self.expect_resumable()

    def test_a_stopped_rank(self):
        run = self.start_training(*IMPATIENT)
        os.kill(self.ranks()[1], signal.SIGSTOP)
        self.expect_end(run, 1, r"did not answer within 2 s; stopped then: rank 1$")
        self.expect_resumable()

    def test_a_full_disk(self):
        disk = self.disk("size=640k")
        self.out = disk / "run"
        checkpoint = r"the checkpoint of step \d+ was not written: .*/rank-0000\d.*"
        report = r".*/train\.json: writing failed"  # whichever the disk has no room for first
        self.fail(1, rf"^trainyard: rank \d exited with code 1; its last line: ({checkpoint}|{report})"
                     ": No space left on device$",
                  "--out", self.out, "--set", "run.keep_checkpoints=100")
        subprocess.run(["mount", "-o", "remount,size=8m", disk], check=True)
        self.expect_resumable()

    def test_a_read_only_folder(self):
        out = self.disk("ro") / "run"
        self.fail(2, f"^--out {out}: cannot be made: Read-only file system$", "--out", out)

    def test_nothing_to_resume(self):
        run = trainyard("train", self.job, "--out", self.out, "--resume")
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertRegex(run.stderr, r"^\[rank \d\] there is no whole checkpoint to resume in .*\n"
                                     r"trainyard: left out 3 lines .*\n"  # all refuse, none waits
                                     r"trainyard: rank \d exited with code 2(; stopped then: rank [\d, ]+)?\n$")

    def test_a_loss_that_is_no_number(self):
        self.succeed("train", self.job, "--out", self.out, "--set", "training.steps=4")
        before = read_checkpoint(newest(self.out))
        self.fail(1, r"^trainyard: rank \d exited with code 1; its last line: step \d+: the "
                     "(loss|norm of the gradients) is (nan|inf)$", "--out", self.out, "--resume",
                  "--set", "training.learning_rate=1e6", "--set", "training.clip=0", "--set",
                  "training.weight_decay=1000", "--set", "run.checkpoint_steps=1000")
        self.assertEqual(read_checkpoint(newest(self.out)), before)
        self.expect_resumable()

    def test_a_truncated_token_file(self):
        tokens = write_documents(self.folder)
        os.truncate(tokens, 1000)
        self.fail(2, f"^{tokens}: .* says 2384 tokens, so 2384 bytes, but the file has 1000$",
                  "--set", f'data.files=["{tokens}"]', "--set", 'data.format="megatron"')

    def test_a_wrong_number_of_processes(self):
        sizes = "tensor 1 x pipeline 2 x data 2 = 4 ranks$"
        self.fail(2, f"^--nproc 3 does not fit the job: {sizes}", "--nproc", 3)
        self.fail(2, f"^3 processes were started, but the job has {sizes}", RANK="0",
                  WORLD_SIZE="3", LOCAL_RANK="0", LOCAL_WORLD_SIZE="3")

    def test_a_rank_that_nobody_started(self):
        runs = [self.start(*IMPATIENT, RANK=str(rank), WORLD_SIZE="4", LOCAL_RANK=str(rank),
                           LOCAL_WORLD_SIZE="4", TRAINYARD_STORE=f"file:{self.folder}",
                           TRAINYARD_RUN_ID="r") for rank in (0, 1, 3)]
        for run in runs:
            self.expect_end(run, 1, "rank 2 of 4 did not come within 2 s$")

    def test_a_store_that_is_not_there(self):
        with socket.socket() as unused:
            unused.bind(("127.0.0.1", 0))
            store = f"redis://127.0.0.1:{unused.getsockname()[1]}"
            self.expect_refused(store, f"store {store}: cannot be reached: Connection refused")

    def test_a_port_of_the_store_that_another_service_has(self):
        with service(b"HTTP/1.1 400 Bad Request\r\n\r\n") as port:
            store = f"redis://127.0.0.1:{port}"
            self.expect_refused(store, f"store {store}: is no Redis server: ")
        with service() as port:
            store = f"redis://127.0.0.1:{port}"
            self.expect_refused(store, f"store {store}: did not answer within 2 s")

    def expect_refused(self, store, cause):
        run = trainyard("train", self.job, "--store", store, *IMPATIENT)
        self.assertEqual(run.returncode, 2, run.stderr)
        self.assertRegex(run.stderr, rf"^\[rank \d\] {cause}")
        self.assertRegex(run.stderr, r"\ntrainyard: rank \d exited with code 2(; stopped then: rank [\d, ]+)?\n$")
        self.assertEqual(run.stderr.count("store redis"), 1)


if __name__ == "__main__":
    main()
