#!/usr/bin/env python3
"""Training over several hosts, each a network namespace with a name and an address of its own, that
meet by way of a Redis server on the first of them."""

import contextlib
import os
import re
import shutil
import subprocess
import unittest

from cli import PROGRAM, CliTest, main

HOSTS = 4
PORT = 6379
TEXT = "All ranks read the same text, wherever they are. " * 200
JOB = """
[model]
layers = 2
hidden = 32
heads = 4
vocab = 256
[parallel]
tensor = 2
pipeline = 2
data = 2
[batch]
global_sequences = 8
micro_sequences = 1
sequence_length = 32
[training]
steps = 4
[data]
files = ["text.txt"]
[run]
timeout_s = 10
log_steps = 1
[cluster]
preset = "megascale-a100"
nodes = 1
"""
# Gives the host its name and its view of names, then becomes the command.
ENTER = 'mount --bind "$1" /etc/hosts && hostname "$2" && shift 2 && exec "$@"'


def ip(*arguments):
    subprocess.run(["ip", *arguments], check=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def obstacle():
    """Why this machine cannot play several hosts; None if it can."""
    for tool in ("ip", "unshare", "redis-server"):
        if not shutil.which(tool):
            return f"{tool} is not installed"
    if os.geteuid() != 0:
        return "network namespaces need root"
    probe = f"trainyard-probe-{os.getpid()}"
    try:
        ip("netns", "add", probe)
        ip("netns", "delete", probe)
    except subprocess.CalledProcessError as error:
        return f"no network namespaces: {error.stderr.decode().strip()}"
    return None


def stop(process):
    process.kill()
    process.communicate()


class Network(contextlib.ExitStack):
    """A switch (a bridge in a namespace of its own) and hosts at 10.77.0.1, 10.77.0.2 …"""

    def __init__(self, folder):
        super().__init__()
        self.switch = self.namespace("switch")
        ip("-n", self.switch, "link", "add", "bridge", "type", "bridge")
        ip("-n", self.switch, "link", "set", "bridge", "up")
        self.hosts = [self.host(number) for number in range(HOSTS)]
        self.names = folder / "hosts"
        self.names.write_text("127.0.0.1 localhost\n" + "".join(
            f"{self.address(number)} host{number}\n" for number in range(HOSTS)))

    @staticmethod
    def address(number):
        return f"10.77.0.{number + 1}"

    def namespace(self, name):
        name = f"trainyard-{os.getpid()}-{name}"
        ip("netns", "add", name)
        self.callback(ip, "netns", "delete", name)
        ip("-n", name, "link", "set", "lo", "up")
        return name

    def host(self, number):
        host = self.namespace(f"host{number}")
        ip("-n", host, "link", "add", "eth0", "type", "veth", "peer", "name", f"port{number}",
           "netns", self.switch)
        ip("-n", self.switch, "link", "set", f"port{number}", "master", "bridge", "up")
        ip("-n", host, "address", "add", f"{self.address(number)}/24", "dev", "eth0")
        ip("-n", host, "link", "set", "eth0", "up")
        return host

    def start(self, number, *command, **variables):
        """A process on a host, ended with the network."""
        process = subprocess.Popen(
            ["ip", "netns", "exec", self.hosts[number], "unshare", "--uts", "--mount",
             "sh", "-c", ENTER, "enter", str(self.names), f"host{number}", *map(str, command)],
            text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            env={**os.environ, **variables})
        self.callback(stop, process)
        return process

    def cut(self, number):
        """Pulls the host's plug."""
        ip("-n", self.switch, "link", "set", f"port{number}", "down")


@unittest.skipIf(obstacle(), obstacle())
class HostsTest(CliTest):
    def setUp(self):
        super().setUp()
        (self.folder / "text.txt").write_text(TEXT)
        self.job = self.scenario("job.toml", JOB.replace("text.txt", str(self.folder / "text.txt")))
        self.network = self.enterContext(Network(self.folder))
        self.redis = self.network.start(
            0, "redis-server", "--bind", self.network.address(0), "--port", PORT, "--save", "",
            "--protected-mode", "no", "--dir", self.folder)
        self.store = f"redis://host0:{PORT}"
        for line in self.redis.stdout:
            if "Ready to accept connections" in line:
                break

    def worker(self, rank, ranks, *arguments, host=None):
        host = rank * HOSTS // ranks if host is None else host
        return self.network.start(
            host, PROGRAM, "train", self.job, *arguments, TRAINYARD_RANK=str(rank),
            TRAINYARD_WORLD_SIZE=str(ranks), TRAINYARD_LOCAL_RANK=str(rank % (ranks // HOSTS)),
            TRAINYARD_LOCAL_WORLD_SIZE=str(ranks // HOSTS), TRAINYARD_STORE=self.store,
            TRAINYARD_RUN_ID=self.id())

    def losses(self, processes):
        """What rank 0 reports, after all ranks have ended well."""
        outputs = [process.communicate(timeout=120) for process in processes]
        for process, (_, errors) in zip(processes, outputs):
            self.assertEqual(process.returncode, 0, errors)
        return re.findall(r"/4 +loss +(\d+\.\d+)", outputs[0][0])

    def test_hosts_train_together_as_one_host_does(self):
        several = self.losses([self.worker(rank, 8) for rank in range(8)])
        self.store = f"file:{self.folder}/store"
        one = self.losses([self.worker(rank, 8, host=1) for rank in range(8)])
        self.assertEqual(len(several), 4)
        self.assertEqual(several, one)

    def test_a_host_that_is_cut_off_is_missed_by_name(self):
        self.network.cut(3)
        processes = [self.worker(rank, 8) for rank in range(8)]
        for rank in range(6):
            _, errors = processes[rank].communicate(timeout=120)
            self.assertEqual(processes[rank].returncode, 1, errors)
            self.assertIn("rank 6, rank 7 of 8 did not come", errors)

    def test_a_host_that_is_lost_in_training_ends_all_others(self):
        processes = [self.worker(rank, 8, "--set", "training.steps=1000000") for rank in range(8)]
        self.assertIn("program", processes[0].stdout.readline())
        self.assertRegex(processes[0].stdout.readline(), r"step +1/")
        self.network.cut(3)
        for process in processes:
            _, errors = process.communicate(timeout=120)
            self.assertEqual(process.returncode, 1, errors)
            self.assertRegex(errors, r"rank \d")

    def test_a_store_out_of_reach_is_named_with_the_reason(self):
        self.redis.kill()
        self.redis.wait()
        worker = self.worker(7, 8)
        _, errors = worker.communicate(timeout=120)
        self.assertEqual(worker.returncode, 2, errors)
        self.assertEqual(errors, f"store {self.store}: cannot be reached: Connection refused\n")


if __name__ == "__main__":
    main()
