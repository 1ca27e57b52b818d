#!/usr/bin/env python3
"""Token files from text, and Hugging Face weights in and out."""

import json
import struct

from cli import CliTest, main, trainyard


def llmc_tokens(path):
    """The tokens of an llm.c file, its header checked."""
    content = path.read_bytes()
    magic, version, count = struct.unpack("<3i", content[:12])
    assert (magic, version, len(content)) == (20240520, 1, 1024 + 2 * count), path
    return list(struct.unpack(f"<{count}H", content[1024:]))


def gpt2_alphabet():
    """GPT-2's 256 characters, in the order of its first ids."""
    printable = [*range(0x21, 0x7F), *range(0xA1, 0xAD), *range(0xAE, 0x100)]
    return [chr(c) for c in printable] + [chr(0x100 + i) for i in range(256 - len(printable))]


class Data(CliTest):
    def text(self, name, content):
        path = self.folder / name
        path.write_bytes(content)
        return path

    def test_bytes_become_an_llmc_file(self):
        out = self.folder / "t.bin"
        printed = self.succeed("data", self.text("a", b"ab"), self.text("b", b"\xff"),
                               "--out", out)
        self.assertEqual(llmc_tokens(out), [97, 98, 255])
        self.assertIn("3 tokens of 3 bytes in 2 documents, vocabulary 256", printed)

    def test_megatron_keeps_the_documents(self):
        self.succeed("data", self.text("a", b"abc"), self.text("b", b"de"), "--format", "megatron",
                     "--out", self.folder / "m")
        self.assertEqual((self.folder / "m.bin").read_bytes(), b"a\0b\0c\0d\0e\0")
        index = (self.folder / "m.idx").read_bytes()
        self.assertEqual(index[:9], b"MMIDIDX\0\0")
        self.assertEqual(struct.unpack("<QBQQ2i2q3q", index[9:]), (1, 8, 2, 3, 3, 2, 0, 6, 0, 1, 2))

    def gpt2(self, *arguments):
        vocab = {entry: i for i, entry in enumerate([*gpt2_alphabet(), "th", "the", "<|endoftext|>"])}
        self.text("vocab.json", json.dumps(vocab).encode())
        self.text("merges.txt", b"#version: 0.2\nt h\nth e\n")
        return ("data", *arguments, "--tokenizer", "gpt2", "--vocab", self.folder / "vocab.json",
                "--merges", self.folder / "merges.txt", "--out", self.folder / "g.bin")

    def test_gpt2_merges_pairs_and_marks_documents(self):
        self.succeed(*self.gpt2(self.text("a", b"the th"), self.text("b", b"!")))
        # "!" is id 0 and the blank, which is written U+0120, id 220.
        self.assertEqual(llmc_tokens(self.folder / "g.bin"), [258, 257, 220, 256, 258, 0])

    def test_gpt2_needs_its_files(self):
        error = self.refused("data", self.text("a", b"x"), "--tokenizer", "gpt2", "--out",
                             self.folder / "x")
        self.assertIn("--vocab", error)

    def test_a_missing_text_is_named_and_nothing_is_left(self):
        error = self.refused("data", self.folder / "none", "--out", self.folder / "x.bin")
        self.assertIn("none: cannot be opened: No such file", error)
        self.assertEqual(list(self.folder.glob("x.bin*")), [])

    def test_a_place_that_cannot_be_written_is_named(self):
        run = trainyard("data", self.text("a", b"x"), "--out", self.folder / "no/x.bin")
        self.assertEqual(run.returncode, 1)
        self.assertIn("no/x.bin: cannot be written: No such file or directory", run.stderr)


def safetensors(tensors):
    """A file of fp32 tensors: {name: (shape, values)}."""
    header, data = {}, b""
    for name, (shape, values) in tensors.items():
        packed = struct.pack(f"<{len(values)}f", *values)
        header[name] = {"dtype": "F32", "shape": shape,
                        "data_offsets": [len(data), len(data) + len(packed)]}
        data += packed
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def read_safetensors(path):
    content = path.read_bytes()
    (length,) = struct.unpack("<Q", content[:8])
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length:]
    return {name: (t["shape"], list(struct.unpack(f"<{(t['data_offsets'][1] - t['data_offsets'][0]) // 4}f",
                                                  data[slice(*t["data_offsets"])])))
            for name, t in header.items()}


class Convert(CliTest):
    def model(self):
        """A made-up Llama of one layer, hidden 4, 2 heads, 1 key head, ffn 6, vocabulary 5."""
        layer = "model.layers.0."
        shapes = {"model.embed_tokens.weight": [5, 4], layer + "input_layernorm.weight": [4],
                  layer + "self_attn.q_proj.weight": [4, 4],
                  layer + "self_attn.k_proj.weight": [2, 4],
                  layer + "self_attn.v_proj.weight": [2, 4],
                  layer + "self_attn.o_proj.weight": [4, 4],
                  layer + "post_attention_layernorm.weight": [4],
                  layer + "mlp.gate_proj.weight": [6, 4], layer + "mlp.up_proj.weight": [6, 4],
                  layer + "mlp.down_proj.weight": [4, 6], "model.norm.weight": [4],
                  "lm_head.weight": [5, 4]}
        tensors, next_value = {}, 0
        for name, shape in shapes.items():
            size = shape[0] * (shape[1] if len(shape) > 1 else 1)
            tensors[name] = (shape, [float(next_value + i) for i in range(size)])
            next_value += size
        folder = self.folder / "hf"
        folder.mkdir()
        (folder / "model.safetensors").write_bytes(safetensors(tensors))
        (folder / "config.json").write_text(json.dumps({
            "model_type": "llama", "vocab_size": 5, "max_position_embeddings": 8, "hidden_size": 4,
            "num_hidden_layers": 1, "num_attention_heads": 2, "num_key_value_heads": 1,
            "intermediate_size": 6, "hidden_act": "silu", "rms_norm_eps": 1e-5}))
        return folder, tensors

    def test_weights_survive_the_way_in_and_out(self):
        folder, tensors = self.model()
        printed = self.succeed("convert", "--from", "hf-llama", folder, "--out", self.folder / "run")
        self.assertIn("[model]\nlayers = 1\nhidden = 4\n", printed)
        self.succeed("convert", "--to", "hf-llama", self.folder / "run/step-00000000", "--out",
                     self.folder / "back")
        self.assertEqual(read_safetensors(self.folder / "back/model.safetensors"), tensors)

    def test_a_damaged_checkpoint_is_not_converted(self):
        folder, _ = self.model()
        self.succeed("convert", "--from", "hf-llama", folder, "--out", self.folder / "run")
        shard = self.folder / "run/step-00000000/rank-00000.safetensors"
        shard.write_bytes(shard.read_bytes()[:-1])
        error = self.refused("convert", "--to", "hf-llama", shard.parent, "--out", self.folder / "x")
        self.assertIn("rank-00000.safetensors: has", error)

    def test_one_direction_has_to_be_named(self):
        self.assertIn("--from", self.refused("convert", self.folder, "--out", self.folder))


if __name__ == "__main__":
    main()
