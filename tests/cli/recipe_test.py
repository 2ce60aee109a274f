"""Files in the YAML form of cann-recipes-infer as a user gives them: --config of generate, eval and bench decode."""
import json
import unittest

import program


class Recipe(unittest.TestCase):
    def recipe(self, text):
        """A file of this text, with the bundled model and graphs unless the text says otherwise."""
        directory = program.temporary_directory(self)
        if "model_config" not in text:
            text = f"model_config: {{model_path: {program.MINI}, exe_mode: npugraph_ex}}\n" + text
        (directory / "recipe.yaml").write_text(text.replace("MINI", str(program.MINI)))
        return directory / "recipe.yaml"

    def generate(self, text, *arguments, prompt=("-p", "Question: 2 + 3?")):
        done = program.run_well("generate", "--config", self.recipe(text), "--json", *prompt, *arguments)
        return program.json_lines(done.stdout), done.stderr

    def fails(self, code, message, *arguments):
        done = program.run(*arguments)
        self.assertEqual(done.returncode, code, done.stderr)
        self.assertIn(message, done.stderr)
        self.assertEqual(done.stdout, "")

    def test_the_sample_runs_where_its_path_leads_to_the_model(self):
        done = program.run_well("generate", "--config", "models/mini/recipe.yaml", "-p", "Question: 2 + 3?", "--json",
                                cwd=program.ROOT)
        self.assertEqual(program.json_lines(done.stdout)[-1]["statement"]["mode"], "full")
        self.assertNotIn("without effect", done.stderr)

    def test_exe_mode_is_the_mode(self):
        for exe_mode, mode in (("eager", "eager"), ("npugraph_ex", "full")):
            lines, _ = self.generate(f"model_config: {{model_path: MINI, exe_mode: {exe_mode}}}")
            self.assertEqual(lines[-1]["statement"]["mode"], mode)
            self.assertEqual(lines[-1]["statement"]["dtype"], "bfloat16")
        lines, _ = self.generate("compile_options: {force_eager: true}")
        self.assertEqual(lines[-1]["statement"]["mode"], "force_eager")

    def test_all_modes_of_a_recipe_give_the_same_text(self):
        texts = {mode: self.generate(f"model_config: {{model_path: MINI, exe_mode: {mode}}}", "--ignore-eos")[0][0]["text"]
                 for mode in ("eager", "npugraph_ex")}
        self.assertEqual(texts["eager"], texts["npugraph_ex"])

    def test_the_command_line_wins(self):
        text = "data_config: {temperature: 1, seed: 3}\nscheduler_config: {max_new_tokens: 2}"
        lines, _ = self.generate(text, "--ignore-eos")
        self.assertEqual(len(lines[0]["ids"]), 2)
        self.assertEqual(lines[0]["seed"], 3)
        lines, _ = self.generate(text, "--ignore-eos", "-n", 5, "--seed", 4, "--mode", "piecewise", "--dtype", "float32")
        self.assertEqual(len(lines[0]["ids"]), 5)
        self.assertEqual(lines[0]["seed"], 4)
        self.assertEqual(lines[-1]["statement"]["mode"], "piecewise")
        self.assertEqual(lines[-1]["statement"]["dtype"], "float32")
        text = "compile_options: {force_eager: true, capture_limit: 2}"
        lines, _ = self.generate(text, "--mode", "full")
        self.assertEqual(lines[-1]["statement"]["mode"], "full")
        lines, _ = self.generate(text, "--option", "force_eager=false")
        self.assertEqual(lines[-1]["statement"]["mode"], "full")
        done = program.run_well("generate", "--config", self.recipe("model_config: {model_path: nowhere}"), "-m",
                                program.MINI, "-p", "x")
        self.assertIn("mode      eager", done.stderr)
        self.assertIn("the command line says wins", " ".join(program.run_well("generate", "--help").stdout.split()))

    def test_sampling_is_greedy_unless_the_file_asks_for_it(self):
        greedy = self.generate("")[0][0]
        self.assertEqual(greedy["ids"], self.generate("", "--temperature", "0")[0][0]["ids"])
        self.assertEqual(greedy["ids"], self.generate("data_config: {temperature: 5, top_k: 1}")[0][0]["ids"])
        self.assertEqual(greedy["ids"], self.generate("data_config: {temperature: 5, top_p: 0}")[0][0]["ids"])
        hot = "data_config: {temperature: 5, seed: %d}"
        self.assertNotEqual(greedy["ids"], self.generate(hot % 1)[0][0]["ids"])
        self.assertEqual(self.generate(hot % 1)[0][0]["ids"], self.generate(hot % 1)[0][0]["ids"])
        self.assertNotEqual(self.generate(hot % 1)[0][0]["ids"], self.generate(hot % 2)[0][0]["ids"])

    def test_prompts_are_cut_to_input_truncated_len(self):
        lines, errors = self.generate("data_config: {input_truncated_len: 3}")
        self.assertEqual(lines[0]["prompt_tokens"], 3)
        self.assertIn("1 of 1 prompts are cut to their first 3 tokens", errors)
        lines, errors = self.generate("data_config: {input_truncated_len: 300}")
        self.assertNotIn("cut", errors)

    def test_a_static_graph_has_the_size_of_the_batch(self):
        text = "model_config: {model_path: MINI, exe_mode: npugraph_ex, enable_dynamic_graph: %s}\n" \
               "scheduler_config: {batch_size: 3, max_new_tokens: 3}\ndata_config: {dataset_path: %s}"
        directory = program.temporary_directory(self)
        (directory / "default_prompt.json").write_text(json.dumps(["1 + 1 =", "2 + 2 ="]))
        lines, _ = self.generate(text % ("False", directory), "--ignore-eos", prompt=())
        self.assertEqual([capture["batch_size"] for capture in lines[-1]["statement"]["captures"]], [3])
        self.assertEqual(lines[-1]["statement"]["decode_steps"]["replayed"], 2)
        lines, _ = self.generate(text % ("True", directory), "--ignore-eos", "--graph-bs", "4", prompt=())
        self.assertEqual([capture["batch_size"] for capture in lines[-1]["statement"]["captures"]], [4], "as it was named")

    def test_the_dataset_fills_the_batch(self):
        directory = program.temporary_directory(self)
        text = f"scheduler_config: {{batch_size: 3, max_new_tokens: 2}}\ndata_config: {{dataset_path: {directory}}}"
        (directory / "default_prompt.json").write_text(json.dumps(["1 + 1 =", "2 + 2 ="]))
        outputs = {line["index"]: line["ids"] for line in self.generate(text, prompt=())[0][:-1]}
        self.assertEqual(sorted(outputs), [0, 1, 2])
        self.assertEqual(outputs[0], outputs[2])
        (directory / "default_prompt.json").write_text(json.dumps({"text": "1 + 1 ="}))
        outputs = {line["index"]: line["ids"] for line in self.generate(text, prompt=())[0][:-1]}
        self.assertEqual(outputs[0], outputs[1])
        for broken in ("[1]", "[]", "{}", "text", '["a", 2]'):
            (directory / "default_prompt.json").write_text(broken)
            self.fails(3, "default_prompt.json: expected", "generate", "--config", self.recipe(text))
        (directory / "default_prompt.json").unlink()
        self.fails(3, "default_prompt.json", "generate", "--config", self.recipe(text))

    def test_outputs_go_into_the_output_path(self):
        directory = program.temporary_directory(self) / "made/here"
        text = f"model_config: {{model_path: MINI, exe_mode: eager, output_path: {directory}}}"
        lines, errors = self.generate(text)
        self.assertEqual(program.json_lines((directory / "generate.jsonl").read_text()), lines[:-1])
        self.assertNotIn("without effect", errors)
        done = program.run_well("eval", "gsm8k", "--config", self.recipe(text), "--data", program.MINI / "test.jsonl",
                                "--num-questions", 2, "--num-shots", 1)
        self.assertIn("Accuracy", done.stdout)
        self.assertEqual(len(program.json_lines((directory / "gsm8k.jsonl").read_text())), 2)

    def test_what_a_command_cannot_use_is_named(self):
        _, errors = self.generate("scheduler_config: {mem_fraction_static: 0.9, num_reserved_decode_tokens: 8}")
        self.assertIn("without effect here: scheduler_config.mem_fraction_static, "
                      "scheduler_config.num_reserved_decode_tokens", errors)
        recipe = self.recipe("data_config: {temperature: 1, input_truncated_len: 16}\n"
                             "scheduler_config: {batch_size: 2, max_new_tokens: 3}\n")
        done = program.run_well("bench", "decode", "--config", recipe, "--modes", "eager,full", "--rounds", 1, "--json")
        self.assertIn("without effect here: data_config.temperature\n", done.stderr)
        result = json.loads(done.stdout)
        self.assertEqual((result["context"], result["steps"]), (16, 3))
        self.assertEqual([(row["mode"], row["batch_size"]) for row in result["results"]], [("eager", 2), ("full", 2)])

    def test_bench_runs_the_mode_of_the_file_unless_modes_are_named(self):
        def modes(text, *arguments):
            done = program.run_well("bench", "decode", "--config", self.recipe(text), "--rounds", 1, "--steps", 1,
                                    "--json", *arguments)
            return [row["mode"] for row in json.loads(done.stdout)["results"]]
        eager = "model_config: {model_path: MINI, exe_mode: eager}"
        self.assertEqual(modes(eager), ["eager"])
        self.assertEqual(modes(eager, "--modes", "full"), ["full"])
        forced = "compile_options: {force_eager: true}"
        self.assertEqual(modes(forced), ["force_eager"])
        self.assertEqual(modes(forced, "--modes", "eager,full"), ["eager", "full"])

    def test_faults_name_file_line_key_and_value(self):
        call = ("generate", "-p", "x", "--config")
        recipe = self.recipe("data_config:\n  temperature: -1\n")
        self.fails(2, f"{recipe}, line 3: data_config.temperature is -1, must be a number of at least 0", *call, recipe)
        recipe = self.recipe("data_config:\n  temperatur: 1\n")
        self.fails(2, f"{recipe}, line 3: there is no key 'temperatur' in data_config (did you mean 'temperature'?)",
                   *call, recipe)
        recipe = self.recipe("data_config:\n  seed: 1\n  seed: 2\n")
        self.fails(3, f"{recipe}, line 4: the key 'seed' was given in line 3 already", *call, recipe)
        recipe = self.recipe("data_config: [\n")
        self.fails(3, "no valid YAML", *call, recipe)
        recipe = self.recipe("compile_options:\n  inplace_pass: 'false'\n")
        self.fails(2, f"{recipe}, line 3: compile_options: option inplace_pass is 'false' (a text), must be true or "
                   "false", *call, recipe)
        recipe = self.recipe("model_config: {model_path: MINI, exe_mode: ge_graph}")
        self.fails(2, "static graphs are not built", *call, recipe)
        self.fails(3, "nowhere.yaml", *call, "nowhere.yaml")
        self.fails(3, str(program.ROOT), *call, program.ROOT)
        recipe = self.recipe("model_config: {exe_mode: eager}")
        self.fails(2, "--model is required (or a file of --config with model_config.model_path)", *call, recipe)
        self.fails(3, "there is no model at", *call, self.recipe("model_config: {model_path: nowhere}"))

    def test_options_of_the_file_reach_the_engine(self):
        call = ("generate", "-p", "x", "-n", 2, "--config")
        self.fails(2, "option clone_input is false, which an engine cannot do", *call,
                   self.recipe("compile_options: {clone_input: false}"))
        lines, _ = self.generate("compile_options: {force_recapture: true}\nscheduler_config: {max_new_tokens: 4}",
                                 "--ignore-eos")
        self.assertEqual(lines[-1]["statement"]["recaptures"], 2)


if __name__ == "__main__":
    unittest.main()
