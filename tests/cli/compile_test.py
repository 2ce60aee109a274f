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
                                ("clone_output=true", "not built"), ("inplace_pass", "NAME=VALUE")):
            done = program.run("compile", "-m", program.MINI, "--option", option)
            self.assertEqual(done.returncode, 2, option)
            self.assertIn(message, done.stderr)

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
