"""What is trained: scenario files, and the text they learn from."""

import json
import random

GPT2 = {"model.preset": "gpt2-124m", "training.vocab_divisible_by": 128}
TINY = {"model.layers": 2, "model.hidden": 32, "model.heads": 2, "model.vocab": 256}
BASE = {
    "training.optimizer": "adamw", "training.learning_rate": 1e-4,
    "training.learning_rate_schedule": "constant", "training.epsilon": 1e-3,
    "training.clip": 1.0, "data.format": "bytes", "run.timeout_s": 60,
}
# Small enough for a CPU; 50 steps. A CPU is given CPU_STEPS of them.
LOSSES = {"batch.global_sequences": 2, "batch.micro_sequences": 1, "batch.sequence_length": 128,
          "training.steps": 50}
CPU_STEPS = 5
# A GPU's share of a training.
SPEED = {"batch.global_sequences": 64, "batch.micro_sequences": 16, "batch.sequence_length": 1024,
         "training.steps": 20, "training.precision": "bf16"}
SMALL_SPEED = {**SPEED, "batch.global_sequences": 4, "batch.micro_sequences": 2,
               "batch.sequence_length": 16, "training.steps": 6}


class Jobs:
    """Writes scenario files for a machine."""

    def __init__(self, machine):
        self.machine, self.small = machine, machine.on_host is not None
        self.text = machine.out / "text.bin"
        draw = random.Random(7)
        words = ["".join(draw.choices("etaoinshrdlu", k=draw.randint(1, 9))) for _ in range(999)]
        length = 20_000 if self.small else 400_000
        self.text.write_text(" ".join(draw.choices(words, k=length)))
        self.steps = 6 if self.small else LOSSES["training.steps"]

    def losses(self, precision, **more):
        """A job whose losses are compared."""
        batch = {**LOSSES, "training.steps": self.steps}
        if self.small:
            batch["batch.sequence_length"] = 16
        return self.write("losses", {**batch, "training.precision": precision, **more})

    def speed(self, **more):
        """A job whose steps are timed."""
        return self.write("speed", {**(SMALL_SPEED if self.small else SPEED), **more})

    def write(self, name, settings):
        keys = {**BASE, **(TINY if self.small else GPT2), "data.files": [str(self.text)],
                "cluster.preset": self.machine.preset or "h100-8", **settings}
        path = self.machine.out / f"{name}.toml"
        path.write_text("".join(f"{key} = {json.dumps(value)}\n" for key, value in keys.items()))
        return path
