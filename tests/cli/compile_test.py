"""reprise compile and graph as a user calls them: what the passes did, what they left alone, and the dumps."""
import unittest

import program


class Compile(unittest.TestCase):
    def test_explain_lists_every_pass_with_its_matches(self):
        done = program.run_well("compile", "-m", program.MINI, "--explain")
        self.assertRegex(done.stdout, r"^decode: \d+ nodes traced, \d+ after \d+ passes\n")
        for name, matches in (("merge_linears", 10), ("split_qkv_rms_norm_rope", 5), ("swiglu", 5),
                              ("add_rms_norm", 10)):
            self.assertRegex(done.stdout, rf"(?m)^{name} +\d+ +\d+ +{matches} +\d+ +\d+\.\d+$")

    def test_a_disabled_pass_does_nothing_and_an_unknown_one_is_refused(self):
        done = program.run_well("compile", "-m", program.MINI, "--explain", "--disable-pass", "swiglu")
        self.assertNotRegex(done.stdout, r"(?m)^swiglu +\d+ +\d+ +5 ")
        done = program.run("compile", "-m", program.MINI, "--disable-pass", "swigloo")
        self.assertEqual(done.returncode, 2)
        self.assertIn("swigloo", done.stderr)

    def test_options_have_their_published_names_and_are_strict(self):
        done = program.run_well("compile", "-m", program.MINI, "--explain", "--option", "pattern_fusion_pass=false")
        self.assertNotRegex(done.stdout, r"(?m)^swiglu +\d+ +\d+ +5 ")
        for option, message in (("pattern_fusion_pass=0", "must be true or false"), ("inplace_pas=true", "inplace_pass"),
                                ("static_kernel_compile=true", "static_kernel_compile is not built"),
                                ("use_graph_pool=1", "only a C++ program"), ("inplace_pass", "NAME=VALUE"),
                                ("capture_limit=0", "an integer in [1, "), ("clone_input=false", "static inputs"),
                                ("reuse_graph_pool_in_same_fx=false", "one arena"),
                                ("capture_error_mode=any", '"global", "thread_local" or "relaxed"')):
            done = program.run("compile", "-m", program.MINI, "--option", option)
            self.assertEqual(done.returncode, 2, option)
            self.assertIn(message, done.stderr)

    def generate(self, *arguments):
        """The statement of a run, and what was logged."""
        done = program.run_well("generate", "-m", program.MINI, "-p", "Question: 2 + 3?", "-n", 5, "--ignore-eos",
                                "--json", *arguments)
        return program.json_lines(done.stdout)[-1]["statement"], done.stderr

    def test_options_of_captures_reach_the_engine(self):
        statement, _ = self.generate("--option", "force_eager=true")
        self.assertEqual(statement["mode"], "force_eager")
        self.assertEqual(self.generate("--mode", "force_eager", "-O", "force_eager=true")[0]["mode"], "force_eager")
        statement, _ = self.generate("--option", "force_recapture=true")
        self.assertEqual(statement["recaptures"], 3)
        self.assertEqual(len(statement["captures"]), 1)
        for mode in ("global", "thread_local", "relaxed"):
            statement, _ = self.generate("--option", f"capture_error_mode={mode}", "--option", "clone_output=true")
            self.assertEqual(statement["decode_steps"]["replayed"], 4)

    def test_batch_sizes_beyond_the_capture_limit_run_eagerly_and_are_named(self):
        directory = program.temporary_directory(self)
        (directory / "prompts.jsonl").write_text('{"prompt": "1 + 1"}\n' * 3)
        done = program.run_well("generate", "-m", program.MINI, "--prompts", directory / "prompts.jsonl", "-n", 4,
                                "--ignore-eos", "--json", "--graph-bs", "1,2,3", "-O", "capture_limit=2")
        self.assertIn("capture_limit is 2: steps of batch sizes 3 run eagerly", done.stderr)
        steps = program.json_lines(done.stdout)[-1]["statement"]["decode_steps"]
        self.assertEqual(steps["capture_limit"], 3)

    def test_named_batch_sizes_stay_as_they_are_named(self):
        directory = program.temporary_directory(self)
        (directory / "prompts.jsonl").write_text('{"prompt": "1 + 1"}\n' * 3)
        call = ("generate", "-m", program.MINI, "--prompts", directory / "prompts.jsonl", "-n", 3, "--ignore-eos",
                "--json", "--graph-bs")
        done = program.run_well(*call, "1,16,4")
        statement = program.json_lines(done.stdout)[-1]["statement"]
        self.assertEqual([capture["batch_size"] for capture in statement["captures"]], [4])
        self.assertEqual(statement["decode_steps"]["replayed"], 2)
        self.assertIn("graph batch sizes that are left out: 16; 4 is the largest that at most 3 requests", done.stderr)
        done = program.run_well(*call, "1,2,4", "--disable-graph-padding")
        statement = program.json_lines(done.stdout)[-1]["statement"]
        self.assertEqual(statement["captures"], [])
        self.assertEqual(statement["decode_steps"]["no_exact_bucket"], 2)
        self.assertNotIn("left out", done.stderr)
        self.assertIn("--graph-max-bs give larger ones", program.run_well(*call, "1,2").stderr)

    def test_contradictions_and_options_without_effect_are_named(self):
        call = ("generate", "-m", program.MINI, "-p", "x", "-n", 2)
        done = program.run(*call, "--mode", "full", "--option", "force_eager=true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("option force_eager contradicts mode full", done.stderr)
        done = program.run("bench", "decode", "-m", program.MINI, "--option", "force_eager=true")
        self.assertEqual(done.returncode, 2)
        self.assertIn("option force_eager contradicts mode eager", done.stderr)
        _, log = self.generate("--mode", "eager", "-O", "capture_limit=64", "-O", "inplace_pass=true")
        self.assertIn("without effect in mode eager: capture_limit, inplace_pass", log)
        _, log = self.generate("--mode", "force_eager", "-O", "capture_limit=64", "-O", "inplace_pass=true")
        self.assertIn("without effect in mode force_eager: capture_limit\n", log)

    def test_eager_has_nothing_to_compile(self):
        done = program.run("compile", "-m", program.MINI, "--mode", "eager")
        self.assertEqual(done.returncode, 2)
        self.assertIn("compiles nothing", done.stderr)

    def test_texts_are_the_same_with_each_pass_left_out(self):
        call = ("generate", "-m", program.MINI, "-p", "Question: 2 + 3?\nAnswer:", "-n", 12, "--quiet")
        expected = program.run_well(*call, "--mode", "eager").stdout
        for name in ("merge_linears", "split_qkv_rms_norm_rope", "swiglu", "add_rms_norm", "in_place"):
            self.assertEqual(program.run_well(*call, "--disable-pass", name).stdout, expected, name)

    def test_piecewise_gives_the_same_text_and_says_how_many_pieces(self):
        call = ("generate", "-m", program.MINI, "-p", "Question: 2 + 3?\nAnswer:", "-n", 12)
        expected = program.run_well(*call, "--mode", "full").stdout
        done = program.run_well(*call, "--mode", "piecewise")
        self.assertEqual(done.stdout, expected)
        self.assertRegex(done.stderr, r"bs 1: 6 pieces ")
        done = program.run_well(*call, "--mode", "piecewise", "--compilation-config", '{"splitting_ops": ["swiglu"]}')
        self.assertEqual(done.stdout, expected)
        for config in ("{", "[]", '{"splitting_ops": "swiglu"}', '{"splitting_ops": ["swigloo"]}',
                       '{"splitting_ops": [], "compiler": "x"}'):
            done = program.run(*call, "--mode", "piecewise", "--compilation-config", config)
            self.assertEqual(done.returncode, 2, config)
        done = program.run(*call, "--compilation-config", '{"splitting_ops": ["swiglu"]}')
        self.assertEqual(done.returncode, 2)

    def test_the_debug_directory_holds_graphs_and_programs(self):
        directory = program.temporary_directory(self)
        program.run_well("generate", "-m", program.MINI, "-p", "Question:", "-n", 3, "--debug-dir", directory)
        names = sorted(path.name for path in (directory / "decode").iterdir())
        self.assertEqual(names[0], "000_traced.txt")
        self.assertIn("passes.log", names)
        self.assertIn("program_bs1.json", names)
        done = program.run("compile", "-m", program.MINI, "--debug-dir", "/proc/nowhere")
        self.assertEqual(done.returncode, 3)


if __name__ == "__main__":
    unittest.main()
