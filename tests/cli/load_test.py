"""What loading a model takes, and what a second start has of the first."""
import json
import os
import pathlib
import resource
import shutil
import tempfile
import unittest

import program

MEGABYTE = 1 << 20
# 116 MB of weights in bfloat16, in few large tensors: what is in memory twice stands out.
CONFIG = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 1024, "intermediate_size": 8192,
          "num_hidden_layers": 2, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 128,
          "max_position_embeddings": 512, "rms_norm_eps": 1e-6, "rope_theta": 10000.0, "tie_word_embeddings": False,
          "torch_dtype": "bfloat16", "hidden_act": "silu"}


class Loading(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.temporary = tempfile.TemporaryDirectory()
        cls.directory = pathlib.Path(cls.temporary.name)
        vocabulary = json.loads((program.MINI / "config.json").read_text())["vocab_size"]
        (cls.directory / "config.json").write_text(json.dumps(CONFIG | {"vocab_size": vocabulary}))
        cls.model = cls.directory / "bfloat16"
        program.run_well("synth", cls.directory / "config.json", cls.model)
        for file in program.MINI.glob("tokenizer*"):
            shutil.copy(file, cls.model)
        program.run_well("quantize", "-m", cls.model, "-o", cls.directory / "int8")

    @classmethod
    def tearDownClass(cls):
        cls.temporary.cleanup()

    def generate(self, model, *arguments):
        done = program.run_well("generate", "-m", model, "-p", "Hello", "--max-new-tokens", 8, "--ignore-eos", "--json",
                                *arguments)
        lines = program.json_lines(done.stdout)
        return lines[0]["ids"], lines[-1]["statement"]["weights"], done.stderr

    def test_takes_the_final_size_and_one_tensor_at_most(self):
        for model, dtype, size in (("bfloat16", "bfloat16", 116), ("bfloat16", "float32", 228), ("int8", "bfloat16", 62)):
            with self.subTest(model=model, dtype=dtype):
                weights = self.generate(self.directory / model, "--dtype", dtype)[1]
                self.assertAlmostEqual(weights["bytes"] / MEGABYTE, size, delta=4)
                # The embedding, of which a row is read now and then.
                self.assertLessEqual(weights["mapped_bytes"], 5 * MEGABYTE)
                # Beside the weights, what the program touches of itself while it loads.
                bound = weights["bytes"] - weights["mapped_bytes"] + weights["largest_tensor_bytes"] + 4 * MEGABYTE
                self.assertLessEqual(weights["peak_resident_bytes"] - weights["resident_before_bytes"], bound)
                self.assertLessEqual(weights["peak_over_final"], bound / weights["bytes"])
                self.assertGreater(weights["peak_over_final"], 0.9)

    def test_a_second_start_maps_what_the_first_has_packed(self):
        for model in ("bfloat16", "int8"):
            with self.subTest(model=model):
                ids, packed, _ = self.generate(self.directory / model)
                self.assertEqual(packed["pack_cache"], "")
                cache = self.directory / "cache"
                first_ids, first, _ = self.generate(self.directory / model, "--pack-cache", cache)
                self.assertTrue(first["pack_cache"].startswith("written "), first)
                second_ids, second, log = self.generate(self.directory / model, "--pack-cache", cache)
                self.assertTrue(second["pack_cache"].startswith("mapped "), second)
                self.assertNotIn("warning", log)
                self.assertEqual((first_ids, second_ids), (ids, ids))
                self.assertGreater(second["mapped_bytes"], 0.98 * second["bytes"])
                self.assertLess(second["peak_anonymous_bytes"] - second["anonymous_before_bytes"],
                                0.1 * second["bytes"])

    def test_the_cache_lies_beside_the_model_when_no_directory_is_named(self):
        model = program.temporary_directory(self) / "mini"
        shutil.copytree(program.MINI, model)
        for state in ("written", "mapped"):
            done = program.run_well("generate", "--pack-cache", "-m", model, "-p", "Hello", "-n", 4)
            self.assertRegex(done.stderr, rf"packed +{state} .*/mini/model\.cpu\.bfloat16\.reprise-pack")
        (model / "model.cpu.bfloat16.reprise-pack").write_bytes(b"REPRPACK" + bytes(100))
        done = program.run_well("generate", "--pack-cache", "-m", model, "-p", "Hello", "-n", 4)
        self.assertRegex(done.stderr, r"pack cache .*: it has the version 0, this program has 2; the weights are packed")

    def test_a_cache_that_cannot_be_written_is_a_warning(self):
        (self.directory / "file").write_text("")
        done = program.run_well("generate", "--pack-cache", self.directory / "file" / "x", "-m", program.MINI, "-p",
                                "Hello", "-n", 4)
        self.assertRegex(done.stderr, r"pack cache .*cannot make the directory")

    def test_a_limit_on_files_is_a_warning_like_a_full_disk(self):
        cache = self.directory / "limited"
        done = program.run_well("generate", "--pack-cache", cache, "-m", program.MINI, "-p", "Hello", "-n", 4,
                                preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (500_000, 500_000)))
        self.assertRegex(done.stderr, r"pack cache .*limited.*File too large")
        self.assertEqual(list(cache.iterdir()), [])

    def test_commands_that_load_no_weights_refuse_a_cache(self):
        done = program.run("compile", "-m", program.MINI, "--pack-cache")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--pack-cache", done.stderr)


class Autotuning(unittest.TestCase):
    def generate(self, *arguments, model=program.MINI, **options):
        done = program.run_well("generate", "-m", model, "-p", "Hello", "-n", 8, "--json", *arguments, **options)
        lines = program.json_lines(done.stdout)
        return lines[0]["ids"], lines[-1]["statement"], done.stderr

    def test_the_second_start_takes_what_the_first_has_measured(self):
        cache = program.temporary_directory(self) / "new" / "choices.json"
        ids, statement, _ = self.generate()
        self.assertNotIn("autotune", statement)
        first_ids, first, log = self.generate("--autotune", "--autotune-cache", cache)
        self.assertRegex(log, r"autotune: \d+ of \d+ products measured in")
        products = first["autotune"]["products"]
        self.assertGreater(len(products), 0)
        self.assertTrue(all(product["measured"] for product in products))
        # On a busy machine the time that tuning may take does not reach every product: later starts go on.
        for _ in range(20):
            _, again, log = self.generate("--autotune", "--autotune-cache", cache)
            products = again["autotune"]["products"]
            if "nothing was measured" in log:
                break
        machines = json.loads(cache.read_text())["machines"]
        self.assertEqual(list(machines.values()), [{product["shape"]: product["way"] for product in products}])
        # What the file says is taken, and changes no token.
        ways = [product["way"] for product in products]
        for choices in machines.values():
            for shape in choices:
                choices[shape] = "panels of 16 blocks, 32 lines ahead"
        cache.write_text(json.dumps({"reprise_autotune": 1, "machines": machines}))
        second_ids, second, log = self.generate("--autotune", "--autotune-cache", cache)
        self.assertIn("nothing was measured", log)
        self.assertEqual({product["way"] for product in second["autotune"]["products"]},
                         {"panels of 16 blocks, 32 lines ahead"})
        self.assertEqual(len(second["autotune"]["products"]), len(ways))
        self.assertEqual((first_ids, second_ids), (ids, ids))
        done = program.run_well("generate", "-m", program.MINI, "-p", "Hello", "-n", 4, "--autotune",
                                "--autotune-cache", cache)
        self.assertRegex(done.stderr, r"tuned     \d+ products, 0 of them by default; bfloat16 x bfloat16, .*panels of 16")

    def test_stacks_of_experts_are_tuned_in_the_same_way(self):
        cache = program.temporary_directory(self) / "choices.json"
        ids, _, _ = self.generate(model=program.MINI_MOE)
        of_experts = set()
        for _ in range(20):
            tuned_ids, statement, log = self.generate("--autotune", "--autotune-cache", cache, model=program.MINI_MOE)
            self.assertEqual(tuned_ids, ids)
            # Also those that the time did not suffice for count.
            self.assertRegex(log, r"autotune: (\d+ of 24 products measured in|as .* says, nothing was measured)")
            of_experts |= {product["shape"] for product in statement["autotune"]["products"]
                           if " experts of " in product["shape"]}
            if "nothing was measured" in log:
                break
        self.assertEqual(of_experts, {f"bfloat16 x bfloat16, 8 experts of {sizes}, {rows} each"
                                      for sizes in ("192 to 512", "256 to 192")
                                      for rows in ("1 row", "2-8 rows", "9-64 rows", "more rows")})

    def test_a_damaged_file_is_replaced_and_a_foreign_one_is_left(self):
        cache = program.temporary_directory(self) / "choices.json"
        cache.write_text('{"reprise_autotune": 1, "mach')
        _, _, log = self.generate("--autotune", "--autotune-cache", cache)
        self.assertRegex(log, r"autotune: .*choices.json is ignored: ")
        self.assertIn("machines", json.loads(cache.read_text()))
        cache.write_text('{"mine": 1}')
        _, _, log = self.generate("--autotune", "--autotune-cache", cache)
        self.assertRegex(log, r"is not replaced: .*; the choices are not remembered")
        self.assertEqual(cache.read_text(), '{"mine": 1}')

    def test_a_choice_that_nobody_knows_is_made_again_and_said(self):
        cache = program.temporary_directory(self) / "choices.json"
        self.generate("--autotune", "--autotune-cache", cache)
        document = json.loads(cache.read_text())
        (choices,) = document["machines"].values()
        choices[sorted(choices)[0]] = "by magic"
        cache.write_text(json.dumps(document))
        _, _, log = self.generate("--autotune", "--autotune-cache", cache)
        self.assertRegex(log, r'choices.json: 1 choices are ignored and made again: "by magic" for .* is no way')
        self.assertNotIn("by magic", cache.read_text())

    def test_the_file_lies_in_the_cache_of_the_user(self):
        directory = program.temporary_directory(self)
        self.generate("--autotune", env={**os.environ, "XDG_CACHE_HOME": str(directory)})
        self.assertTrue((directory / "reprise" / "autotune.json").is_file())

    def test_options_that_would_do_nothing_are_refused(self):
        done = program.run("generate", "-m", program.MINI, "-p", "Hello", "--autotune-cache", "x.json")
        self.assertEqual(done.returncode, 2)
        self.assertIn("add --autotune", done.stderr)
        done = program.run("generate", "-m", program.MINI, "-p", "Hello", "--autotune", "--autotune-cache", "")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--autotune-cache names no file", done.stderr)
        done = program.run("compile", "-m", program.MINI, "--autotune")
        self.assertEqual(done.returncode, 2)


if __name__ == "__main__":
    unittest.main()
