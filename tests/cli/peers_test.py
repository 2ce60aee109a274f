"""bench/peers/compare: taking turns with peers, here with programs that answer as llama.cpp's do."""
import json
import struct
import subprocess
import sys
import unittest
import xml.etree.ElementTree

import program

COMPARE = program.ROOT / "bench/peers/compare"
TO_GGUF = program.ROOT / "bench/peers/to_gguf"

LLAMA_BENCH = """#!/bin/sh
# A round is slow, the next one fast: the median of three counts.
echo x >>"$0.calls"
count=$(wc -l <"$0.calls")
echo '[{"build_commit": "abc123", "avg_ts": '$((count * 1000))'.0}]'
"""

LLAMA_BATCHED_BENCH = """#!/bin/sh
echo 'main: n_kv_max = 1280'
echo '|    PP |     TG |    B |   N_KV |   T_PP s | S_PP t/s |   T_TG s | S_TG t/s |      T s |    S t/s |'
echo '|-------|--------|------|--------|----------|----------|----------|----------|----------|----------|'
echo '|   128 |     32 |    8 |   1280 |    1.000 |  1024.00 |    2.000 |   128.50 |    3.000 |   426.67 |'
"""


class Peers(unittest.TestCase):
    def setUp(self):
        self.directory = program.temporary_directory(self)
        self.out = self.directory / "out"
        self.gguf = self.directory / "weights.gguf"
        self.gguf.write_text("GGUF")

    def install(self, name, text):
        path = self.directory / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(text)
        path.chmod(0o755)

    def compare(self, *arguments):
        return subprocess.run([sys.executable, COMPARE, "-m", program.MINI, "--out", self.out, "--reprise", program.PROGRAM,
                               "--threads", "1", *map(str, arguments)],
                              capture_output=True, text=True, timeout=120, check=False)

    def test_programs_take_turns_and_medians_are_compared(self):
        self.install("llama-bench", LLAMA_BENCH)
        self.install("llama-batched-bench", LLAMA_BATCHED_BENCH)
        done = self.compare("--gguf", self.gguf, "--peer", f"llama.cpp={self.directory / 'bin'}", "--rounds", 3,
                            "--batch-size", "1,8", "--input-len", 16)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {line.split("|")[1].strip(): [cell.strip() for cell in line.split("|")[2:-1]]
                for line in done.stdout.splitlines() if line.startswith("| ")}
        self.assertEqual(rows["tokens per second"][1:], ["llama.cpp abc123", "share of the limit", "to the better peer"])
        # Calls 1, 3 and 5 of llama-bench are decode steps, 2, 4 and 6 prompts.
        self.assertEqual([rows[work][1] for work in ("decode, batch 1", "decode, batch 8", "prefill, 16 tokens")],
                         ["3000.0", "128.5", "4000.0"])
        own = float(rows["decode, batch 8"][0])
        self.assertEqual(rows["decode, batch 8"][3], f"{own / 128.5:.2f}x")
        self.assertRegex(rows["decode, batch 1"][2], r"^\d+\.\d%( \*)?$")
        self.assertEqual((self.out / "table.md").read_text(), done.stdout)
        lines = program.json_lines((self.out / "results.jsonl").read_text())
        self.assertEqual(len(lines), 3 * 3 * 2)
        self.assertEqual([line["engine"].split()[0] for line in lines[:4]], ["reprise", "llama.cpp"] * 2)
        plot = xml.etree.ElementTree.parse(self.out / "plot.svg").getroot()
        texts = [text.text for text in plot.iter("{http://www.w3.org/2000/svg}text")]
        self.assertIn("3000.0", texts)

    def test_without_a_peer_the_table_has_reprise_alone_and_says_so(self):
        done = self.compare("--rounds", 1, "--batch-size", 1, "--input-len", 16)
        if "no peer" not in done.stderr:
            self.skipTest("a peer is installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("| decode, batch 1 |", done.stdout)
        plot = xml.etree.ElementTree.parse(self.out / "plot.svg").getroot()
        texts = [text.text for text in plot.iter("{http://www.w3.org/2000/svg}text")]
        self.assertTrue(any("no peer was installed" in text for text in texts), texts)
        self.assertRegex(texts[-1], r"^\d+\.\d, \d+\.\d%$")

    def test_several_models_are_rows_of_one_table(self):
        done = self.compare("-m", program.MINI_MOE, "--rounds", 1, "--batch-size", 1, "--input-len", 16)
        if "no peer" not in done.stderr:
            self.skipTest("a peer is installed")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = [line.split("|")[1].strip() for line in done.stdout.splitlines() if line.startswith("| ")]
        self.assertEqual(rows, ["tokens per second", "mini: decode, batch 1", "mini: prefill, 16 tokens",
                                "mini-moe: decode, batch 1", "mini-moe: prefill, 16 tokens"])

    def test_what_is_wrong_is_said_before_anything_is_measured(self):
        self.install("llama-bench", LLAMA_BENCH)
        peer = f"llama.cpp={self.directory / 'bin'}"
        for arguments, message in ((("--peer", peer), "error: peers need the weights as --gguf FILE"),
                                   (("--peer", "llama.cpp=/nowhere"), "error: --peer llama.cpp=/nowhere: expected NAME=DIRECTORY"),
                                   (("--peer", peer, "--gguf", "nofile"), "error: --gguf nofile: there is no such file"),
                                   (("--gguf", self.directory), "there is no such file"),
                                   (("--rounds", 0), "error: --rounds is 0, must be at least 1"),
                                   (("--batch-size", "1,x"), "'1,x' is no list of positive numbers such as 1,8,32")):
            done = self.compare(*arguments)
            self.assertNotEqual(done.returncode, 0)
            self.assertIn(message, done.stderr)
            self.assertFalse(self.out.exists())

    def test_a_peer_that_fails_is_named_with_its_words(self):
        self.install("llama-bench", "#!/bin/sh\necho 'failed to load model' >&2\nexit 1\n")
        done = self.compare("--gguf", self.gguf, "--peer", f"llama.cpp={self.directory / 'bin'}", "--rounds", 1,
                            "--batch-size", 1, "--input-len", 16)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr, r"llama-bench .*exit status 1\nfailed to load model")

    def test_a_peer_that_answers_something_else_is_named_with_its_words(self):
        for answer, message in (("loading...", "llama-bench printed no JSON:\nloading..."),
                                ("[]", "printed no list of tests with their speed as avg_ts:\n[]"),
                                ('[{"avg_ts": null}]', 'avg_ts:\n[{"avg_ts": null}]')):
            self.install("llama-bench", f"#!/bin/sh\necho '{answer}'\n")
            done = self.compare("--gguf", self.gguf, "--peer", f"llama.cpp={self.directory / 'bin'}", "--rounds", 1,
                                "--batch-size", 1, "--input-len", 16)
            self.assertEqual(done.returncode, 1)
            self.assertIn(message, done.stderr)
            self.assertNotIn("Traceback", done.stderr)

    def test_a_limit_that_was_disturbed_is_marked_in_the_table(self):
        self.install("reprise", """#!/bin/sh
if [ "$1" = --version ]; then echo 'reprise 0'; exit; fi
echo '{"results": [{"tokens_per_second": 10, "share_of_limit": 0.9, "limit_disturbed": '$([ "$2" = decode ] && echo true || echo false)'}]}'
""")
        done = self.compare("--reprise", self.directory / "bin/reprise", "--rounds", 1, "--batch-size", 1, "--input-len", 16)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertRegex(done.stdout, r"\| decode, batch 1 \|.*\| 90\.0% \* \|")
        self.assertRegex(done.stdout, r"\| prefill, 16 tokens \|.*\| 90\.0% \|")
        self.assertIn("\\* above the measured limit", done.stdout)


class GgufReader:
    """Reads what a GGUF file says, by the format's own description."""

    def __init__(self, path):
        self.bytes, self.at = path.read_bytes(), 0
        magic, self.version, tensors, values = self.take("<4sIQQ")
        assert magic == b"GGUF"
        self.values = {self.text(): self.value(self.take("<I")[0]) for _ in range(values)}
        self.tensors = {}
        for _ in range(tensors):
            name = self.text()
            shape = self.take(f"<{self.take('<I')[0]}Q")
            self.tensors[name] = (shape, *self.take("<IQ"))
        self.data = (self.at + 31) // 32 * 32

    def take(self, form):
        values = struct.unpack_from(form, self.bytes, self.at)
        self.at += struct.calcsize(form)
        return values

    def text(self):
        size, = self.take("<Q")
        self.at += size
        return self.bytes[self.at - size:self.at].decode()

    def value(self, kind):
        if kind == 8:
            return self.text()
        if kind == 9:
            inner, count = self.take("<IQ")
            return [self.value(inner) for _ in range(count)]
        return self.take({4: "<I", 5: "<i", 6: "<f", 7: "<?"}[kind])[0]


class WeightsOfPeers(unittest.TestCase):
    def setUp(self):
        self.out = program.temporary_directory(self) / "mini.gguf"

    def convert(self, directory, *arguments):
        return subprocess.run([sys.executable, TO_GGUF, directory, self.out, *map(str, arguments)], capture_output=True,
                              text=True, timeout=60, check=False)

    def test_the_file_holds_the_bits_of_the_checkpoint(self):
        done = self.convert(program.MINI)
        self.assertEqual(done.returncode, 0, done.stderr)
        read = GgufReader(self.out)
        self.assertEqual((read.version, read.values["general.architecture"]), (3, "qwen3"))
        config = json.loads((program.MINI / "config.json").read_text())
        self.assertEqual(read.values["qwen3.block_count"], config["num_hidden_layers"])
        self.assertEqual(len(read.values["tokenizer.ggml.tokens"]), config["vocab_size"])
        checkpoint = (program.MINI / "model.safetensors").read_bytes()
        size, = struct.unpack_from("<Q", checkpoint)
        header = json.loads(checkpoint[8:8 + size])
        header.pop("__metadata__", None)
        self.assertEqual(len(read.tensors), len(header))
        for own, name in (("model.layers.3.mlp.down_proj.weight", "blk.3.ffn_down.weight"),
                          ("model.layers.0.self_attn.q_norm.weight", "blk.0.attn_q_norm.weight")):
            begin, end = (8 + size + offset for offset in header[own]["data_offsets"])
            shape, kind, offset = read.tensors[name]
            self.assertEqual(list(reversed(shape)), header[own]["shape"])
            data, bits = read.bytes[read.data + offset:], checkpoint[begin:end]
            if kind == 30:
                self.assertEqual(data[:len(bits)], bits)
            else:  # a bfloat16 is the upper half of a float32
                self.assertEqual(data[:2 * len(bits)],
                                 b"".join(b"\0\0" + bits[i:i + 2] for i in range(0, len(bits), 2)))

    def test_what_cannot_be_written_is_refused_by_name(self):
        for arguments, message in (((program.MINI_MOE,), "is of the type qwen3_moe: only dense Qwen3"),
                                   ((program.MINI, "--tokenizer", program.ROOT), "there is no tokenizer.json in"),
                                   (("/nowhere",), "/nowhere/config.json")):
            done = self.convert(*arguments)
            self.assertEqual(done.returncode, 1)
            self.assertRegex(done.stderr, f"^error: .*{message}")
            self.assertFalse(self.out.exists())


if __name__ == "__main__":
    unittest.main()
