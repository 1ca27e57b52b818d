#!/usr/bin/env python3
"""launch_test.py DRIVER: ranks that fail, stop, flood and are killed, as real processes; after each
test nobody of its run may be left."""

import os
import signal
import subprocess
import sys
import time
import unittest
from pathlib import Path

DRIVER = ""
GRACE_MS = 400
FOREVER = "exec sleep 1000"


def processes_of(run):
    """(pid, name, rank) of every live process whose environment has the run's id."""
    mark = f"TRAINYARD_RUN_ID={run}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            state = (folder / "stat").read_text().rsplit(")", 1)[1].split()[0]
            variables = (folder / "environ").read_bytes().split(b"\0")
            if state != "Z" and mark in variables:
                rank = next(v for v in variables if v.startswith(b"TRAINYARD_RANK="))
                name = (folder / "comm").read_text().strip()
                found.append((int(folder.name), name, int(rank.split(b"=")[1])))
        except OSError:
            pass  # it has ended meanwhile
    return found


def wait_until(condition, seconds=20.0):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        result = condition()
        if result:
            return result
        time.sleep(0.02)
    raise AssertionError("it did not come to this in time")


class Launches(unittest.TestCase):
    def setUp(self):
        self.run_id = f"launch-test-{os.getpid()}-{self._testMethodName}"

    def tearDown(self):
        wait_until(lambda: not processes_of(self.run_id), 5)

    def start(self, script, processes=3, **options):
        """A shell per rank runs `script`; its rank is $TRAINYARD_RANK."""
        command = options.get("command", ["/bin/sh", "-c", script])
        line = [DRIVER, str(processes), str(options.get("grace", GRACE_MS)),
                str(options.get("stopped", 10000)), options.get("output", "prefixed"), *command]
        return subprocess.Popen(line, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                env={**os.environ, "LAUNCH_TEST_RUN": self.run_id})

    def run_to_end(self, script, **options):
        launcher = self.start(script, **options)
        out, err = launcher.communicate(timeout=60)
        return launcher.returncode, out, err

    def ranks(self, count):
        """The pid of each rank, once all are there and are what the script ends as."""
        def found():
            ranks = {rank: pid for pid, name, rank in processes_of(self.run_id)
                     if name == "sleep"}
            return ranks if len(ranks) == count else None
        return wait_until(found)

    def test_all_ranks_know_their_place_and_end_well(self):
        code, out, err = self.run_to_end(
            'echo "$TRAINYARD_WORLD_SIZE $TRAINYARD_LOCAL_RANK $TRAINYARD_LOCAL_WORLD_SIZE '
            '$TRAINYARD_STORE"')
        self.assertEqual((code, err), (0, ""))
        self.assertEqual(sorted(out.splitlines()),
                         [f"[rank {rank}] 3 {rank} 3 file:/nowhere" for rank in range(3)])

    def test_killed_rank_is_named_and_the_others_end(self):
        launcher = self.start(FOREVER, processes=4)
        os.kill(self.ranks(4)[2], signal.SIGKILL)
        out, err = launcher.communicate(timeout=20)
        self.assertEqual(launcher.returncode, 1)
        self.assertEqual(err, "trainyard: rank 2 was killed by signal 9 (SIGKILL)\n")
        self.assertEqual(out, "")

    def test_others_may_say_why_they_end_but_the_first_is_named(self):
        code, _, err = self.run_to_end(
            'if [ $TRAINYARD_RANK = 1 ]; then echo "disk is full" >&2; exit 1; fi; '
            'sleep 0.3; echo "rank $TRAINYARD_RANK lost rank 1" >&2; exit 3', grace=5000)
        self.assertEqual(code, 1)
        self.assertIn("[rank 0] rank 0 lost rank 1\n", err)
        self.assertIn("[rank 2] rank 2 lost rank 1\n", err)
        self.assertEqual(err.splitlines()[-1],
                         "trainyard: rank 1 exited with code 1; its last line: disk is full")

    def test_a_rank_that_only_noticed_an_end_is_not_the_cause(self):
        code, _, err = self.run_to_end(
            'if [ $TRAINYARD_RANK = 1 ]; then sleep 0.3; echo "disk is full" >&2; exit 1; fi; '
            'echo "rank 1 closed the connection" >&2; exit 3', grace=5000)
        self.assertEqual(code, 1)
        self.assertEqual(err.splitlines()[-1],
                         "trainyard: rank 1 exited with code 1; its last line: disk is full")

    def test_ranks_that_ignore_sigterm_are_killed(self):
        code, _, err = self.run_to_end(
            "trap '' TERM; if [ $TRAINYARD_RANK = 0 ]; then exit 7; fi; sleep 1000; sleep 1000")
        self.assertEqual(code, 1)
        self.assertIn("trainyard: rank 0 exited with code 7\n", err)

    def test_stopped_rank_is_reported_and_goes_on(self):
        launcher = self.start("exec sleep 3", stopped=500)
        pid = self.ranks(3)[1]
        os.kill(pid, signal.SIGSTOP)
        self.assertEqual(
            launcher.stderr.readline(),
            f"trainyard: rank 1 (process {pid}) has been stopped for 0.5 s, by SIGSTOP or a "
            f"debugger; kill -CONT {pid} lets it go on\n")
        os.kill(pid, signal.SIGCONT)
        self.assertEqual(launcher.stderr.readline(), "trainyard: rank 1 goes on\n")
        launcher.communicate(timeout=20)
        self.assertEqual(launcher.returncode, 0)

    def test_stopped_rank_ends_with_a_run_that_fails(self):
        launcher = self.start(FOREVER)
        ranks = self.ranks(3)
        os.kill(ranks[1], signal.SIGSTOP)
        time.sleep(0.1)
        os.kill(ranks[0], signal.SIGTERM)
        _, err = launcher.communicate(timeout=20)
        self.assertEqual(launcher.returncode, 1)
        self.assertEqual(err, "trainyard: rank 0 was killed by signal 15 (SIGTERM); "
                              "stopped then: rank 1\n")

    def test_stopped_ranks_are_not_waited_for(self):
        launcher = self.start(FOREVER, processes=2, grace=600_000)
        ranks = self.ranks(2)
        os.kill(ranks[1], signal.SIGSTOP)
        os.kill(ranks[0], signal.SIGKILL)
        launcher.communicate(timeout=20)
        self.assertEqual(launcher.returncode, 1)

    def test_interrupt_ends_all_ranks(self):
        for number, name in ((signal.SIGINT, "SIGINT"), (signal.SIGTERM, "SIGTERM")):
            launcher = self.start(FOREVER)
            self.ranks(3)
            launcher.send_signal(number)
            _, err = launcher.communicate(timeout=20)
            self.assertEqual(launcher.returncode, 1)
            self.assertEqual(err, f"trainyard: the run was ended by signal {number} ({name})\n")

    def test_second_interrupt_does_not_wait(self):
        launcher = self.start("trap '' INT TERM; exec sleep 1000", grace=600_000)
        self.ranks(3)
        launcher.send_signal(signal.SIGINT)
        time.sleep(0.2)
        self.assertIsNone(launcher.poll())
        launcher.send_signal(signal.SIGINT)
        launcher.communicate(timeout=20)
        self.assertEqual(launcher.returncode, 1)

    def test_no_rank_outlives_a_killed_launcher(self):
        launcher = self.start("trap '' INT TERM HUP; exec sleep 1000")
        ranks = self.ranks(3)
        os.kill(ranks[2], signal.SIGSTOP)
        launcher.kill()
        launcher.communicate(timeout=20)  # tearDown() sees that nobody is left

    def test_what_a_rank_started_ends_with_it(self):
        code, _, _ = self.run_to_end("sleep 1000 & exit 0")
        self.assertEqual(code, 0)

    def test_refused_input_is_told_once(self):
        code, out, err = self.run_to_end(
            "echo 'job.toml:3:1: no such key' >&2; echo 'job.toml:4:1: nor this' >&2; exit 2",
            processes=6)
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(err.count("job.toml:3:1: no such key"), 1)
        self.assertEqual(err.count("job.toml:4:1: nor this"), 1)
        self.assertRegex(err.splitlines()[-1], r"^trainyard: rank \d exited with code 2$")

    def test_program_that_cannot_start(self):
        code, out, err = self.run_to_end("", command=["/nowhere/program"])
        self.assertEqual((code, out), (2, ""))
        self.assertEqual(
            err, 'program "/nowhere/program" cannot be started: No such file or directory\n')

    def test_line_without_an_end_is_forwarded_with_one(self):
        code, out, _ = self.run_to_end("printf 'no end'", processes=2)
        self.assertEqual(code, 0)
        self.assertEqual(sorted(out.splitlines()), ["[rank 0] no end", "[rank 1] no end"])
        self.assertTrue(out.endswith("\n"))

    def test_plain_output_is_rank_0s_byte_for_byte(self):
        code, out, err = self.run_to_end(
            'echo "from $TRAINYARD_RANK"; [ $TRAINYARD_RANK != 0 ] || printf "a\\n\\nb"',
            processes=2, output="plain")
        self.assertEqual((code, out), (0, "from 0\na\n\nb"))
        self.assertEqual(err, "[rank 1] from 1\n")

    def test_megabytes_of_many_ranks_come_whole(self):
        lines, ranks = 20_000, 8
        code, out, _ = self.run_to_end(
            f'seq -f "$TRAINYARD_RANK:%07.0f {"x" * 90}" {lines}', processes=ranks)
        self.assertEqual(code, 0)
        following = [1] * ranks
        for line in out.splitlines():
            rank = int(line[6])
            self.assertEqual(line, f"[rank {rank}] {rank}:{following[rank]:07d} {'x' * 90}")
            following[rank] += 1
        self.assertEqual(following, [lines + 1] * ranks)

    def test_output_that_nobody_reads_does_not_hold_up_an_interrupt(self):
        launcher = self.start("trap '' INT; exec yes")
        wait_until(lambda: len(processes_of(self.run_id)) == 3)
        time.sleep(0.5)  # all pipes are full
        launcher.send_signal(signal.SIGINT)
        wait_until(lambda: not processes_of(self.run_id))
        launcher.send_signal(signal.SIGINT)
        launcher.wait(timeout=20)
        self.assertEqual(launcher.returncode, 1)
        launcher.stdout.close()
        launcher.stderr.close()


if __name__ == "__main__":
    DRIVER = sys.argv.pop(1)
    unittest.main()
