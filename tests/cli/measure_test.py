"""reprise eval, bench and synth as a user calls them. Of speeds only that they are there: times prove nothing on a
machine that does other things as well."""
import json
import os
import pathlib
import tempfile
import unittest

import program

DATA = program.MINI / "test.jsonl"
SMALL = {"architectures": ["Qwen3ForCausalLM"], "model_type": "qwen3", "hidden_size": 64, "intermediate_size": 96,
         "num_hidden_layers": 3, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 16,
         "vocab_size": 300, "max_position_embeddings": 128, "rms_norm_eps": 1e-6, "rope_theta": 10000.0,
         "tie_word_embeddings": False, "torch_dtype": "bfloat16", "hidden_act": "silu"}


class Eval(unittest.TestCase):
    def evaluate(self, *arguments):
        return program.run_well("eval", "gsm8k", "-m", program.MINI, "--data", DATA, *arguments)

    def test_the_bundled_model_solves_the_first_twenty(self):
        done = self.evaluate("--num-questions", 20)
        self.assertRegex(done.stdout, r"^Accuracy: 1\.000\nInvalid: 0\.000\nLatency: \d+\.\d{3} s\n"
                                      r"Output throughput: \d+\.\d{3} token/s\n20 of 20 right\n$")
        self.assertRegex(done.stderr, r"decode .* steps: [1-9]\d* replayed, 0 eager")

    def test_the_bundled_model_with_experts_solves_the_first_hundred(self):
        done = program.run_well("eval", "gsm8k", "-m", program.MINI_MOE, "--data", DATA, "--num-questions", 100)
        self.assertRegex(done.stdout, r"\n(99|100) of 100 right\n$")
        self.assertRegex(done.stderr, r"decode .* steps: [1-9]\d* replayed, 0 eager")

    def test_the_load_of_experts_is_told_where_it_is_asked_for(self):
        done = program.run_well("eval", "gsm8k", "-m", program.MINI_MOE, "--data", DATA, "--num-questions", 4,
                                "--expert-load", "--json")
        statement = json.loads(done.stdout)["statement"]
        self.assertEqual([load["layer"] for load in statement["expert_load"]], [0, 1, 2, 3])
        tokens = statement["prefill_tokens"] + statement["decode_tokens"]
        for load in statement["expert_load"]:
            self.assertEqual(len(load["rows"]), 8)
            # Two experts for each token that a step read.
            self.assertAlmostEqual(sum(load["rows"]) / 2, tokens, delta=4)
        refused = program.run("eval", "gsm8k", "-m", program.MINI, "--data", DATA, "--expert-load")
        self.assertEqual(refused.returncode, 2)
        self.assertIn("no experts", refused.stderr)

    def test_experts_move_between_replays_and_change_no_answer(self):
        directory = program.temporary_directory(self)
        arguments = ["eval", "gsm8k", "-m", program.MINI_MOE, "--data", DATA, "--num-questions", 4, "--json"]
        plain = json.loads(program.run_well(*arguments, "--out", directory / "plain.jsonl").stdout)
        done = program.run_well(*arguments, "--out", directory / "moved.jsonl", "--ep-num-redundant-experts", 4,
                                "--ep-dispatch-algorithm", "dynamic", "--eplb-num-ranks", 2,
                                "--eplb-rebalance-num-iterations", 25, "--expert-load-dump", directory / "load.jsonl")
        self.assertEqual((directory / "moved.jsonl").read_text(), (directory / "plain.jsonl").read_text())
        statement = json.loads(done.stdout)["statement"]
        self.assertEqual([c["batch_size"] for c in statement["captures"]],
                         [c["batch_size"] for c in plain["statement"]["captures"]])
        steps = sum(sum(statement[kind].values()) for kind in ("decode_steps", "prefill_steps"))
        rebalances = statement["expert_rebalances"]
        self.assertEqual(rebalances["count"], (steps - 1) // 25)
        self.assertGreater(rebalances["moved_experts"], 0)
        lines = program.json_lines((directory / "load.jsonl").read_text())
        self.assertEqual(len(lines), 4 * (rebalances["count"] + 1))
        self.assertEqual(lines[0]["steps"], [0, 24])
        self.assertEqual(lines[0]["physical_to_logical"], [0, 1, 2, 3, 4, 5, 6, 7, 0, 1, 2, 3])
        self.assertEqual(lines[-1]["steps"][1], steps - 1)
        for layer in range(4):
            counts = [line["logical_count"] for line in lines if line["layer"] == layer]
            self.assertEqual([sum(column) for column in zip(*counts)], statement["expert_load"][layer]["rows"])
        for line in lines:
            self.assertEqual(len(line["physical_count"]), 12)
            ranks = [sum(line["physical_count"][:6]), sum(line["physical_count"][6:])]
            self.assertAlmostEqual(line["balancedness"], sum(ranks) / 2 / max(ranks))
        # What was written can be read: a placement, or the counts.
        for text in ({"physical_to_logical_map": [line["physical_to_logical"] for line in lines[-4:]]},
                     {"logical_count": [line["logical_count"] for line in lines[:4]]}):
            (directory / "location.json").write_text(json.dumps(text))
            program.run_well(*arguments, "--out", directory / "again.jsonl", "--init-expert-location",
                             directory / "location.json")
            self.assertEqual((directory / "again.jsonl").read_text(), (directory / "plain.jsonl").read_text())

        # Weights that were mapped from a cache stay as they are there.
        for _ in range(2):
            program.run_well(*arguments, "--out", directory / "cached.jsonl", "--pack-cache", directory / "cache",
                             "--ep-num-redundant-experts", 4, "--eplb-rebalance-num-iterations", 25)
            self.assertEqual((directory / "cached.jsonl").read_text(), (directory / "plain.jsonl").read_text())

    def test_places_of_experts_that_cannot_be_are_refused(self):
        for model, arguments, text in (
                (program.MINI, ["--ep-num-redundant-experts", 1], "--ep-num-redundant-experts: the model has no exp"),
                (program.MINI, ["--eplb-rebalance-num-iterations", 5], "the model has no experts"),
                (program.MINI_MOE, ["--ep-dispatch-algorithm", "dynamic"], "--ep-dispatch-algorithm has no effect"),
                (program.MINI_MOE, ["--ep-num-redundant-experts", -1], "must be at least 0"),
                (program.MINI_MOE, ["--init-expert-location", ""], "--init-expert-location names no file"),
                (program.MINI_MOE, ["--expert-load-dump", ""], "--expert-load-dump names no file"),
                (program.MINI_MOE, ["--ep-num-redundant-experts", 100], "100 redundant experts, at most 56"),
                (program.MINI_MOE, ["--ep-num-redundant-experts", 1, "--eplb-num-ranks", 2], "9 places of experts"),
                (program.MINI_MOE, ["--eplb-rebalance-num-iterations", -5], "must be at least 0")):
            done = program.run("generate", "-m", model, "-p", "x", *arguments)
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(text, done.stderr)
        done = program.run("graph", "-m", program.MINI_MOE, "--eplb-rebalance-num-iterations", 5)
        self.assertEqual(done.returncode, 2, done.stderr)
        self.assertIn("--eplb-rebalance-num-iterations has no effect: no step runs", done.stderr)
        done = program.run("generate", "-m", program.MINI_MOE, "-p", "x", "--init-expert-location", "/absent.json")
        self.assertEqual(done.returncode, 3, done.stderr)
        self.assertIn("/absent.json", done.stderr)

    def test_an_int8_cache_takes_about_half_the_memory_and_solves_the_first_twenty(self):
        results = {}
        for kv_dtype in ("auto", "int8"):
            done = self.evaluate("--num-questions", 20, "--kv-dtype", kv_dtype, "--poison", "--json")
            results[kv_dtype] = json.loads(done.stdout)
        self.assertEqual(results["int8"]["right"], 20)
        statements = {name: result["statement"] for name, result in results.items()}
        self.assertEqual([statements[name]["kv_dtype"] for name in ("auto", "int8")], ["bfloat16", "int8"])
        # int8 rows, and a float32 scale for each.
        self.assertLess(statements["int8"]["kv_bytes"], 0.57 * statements["auto"]["kv_bytes"])

    def test_answers_are_the_same_alone_in_eager_mode_and_in_float32(self):
        directory = program.temporary_directory(self)
        answers = []
        for i, arguments in enumerate(([], ["--parallel", 1], ["--mode", "eager"], ["--dtype", "float32"])):
            self.evaluate("--num-questions", 8, "--out", directory / f"{i}.jsonl", *arguments)
            answers.append((directory / f"{i}.jsonl").read_text())
        self.assertEqual(answers, answers[:1] * 4)
        lines = program.json_lines(answers[0])
        self.assertEqual(len(lines), 8)
        for line, problem in zip(lines, program.json_lines(DATA.read_text())):
            self.assertEqual(line["question"], problem["question"])
            self.assertEqual(line["expected"], problem["answer"].rsplit("#### ", 1)[1])
            self.assertEqual(line["answer"], line["expected"])
            self.assertIs(line["right"], True)
            self.assertNotIn("Question", line["text"])

    def test_scores_as_the_published_script_does(self):
        directory = program.temporary_directory(self)
        # The last number counts, commas are dropped; without shots the model does not know the form.
        problems = program.json_lines(DATA.read_text())[:6]
        for problem in problems[:3]:
            problem["answer"] += " or 1,234"
        (directory / "data.jsonl").write_text("\n".join(map(json.dumps, problems)) + "\n\n")
        done = program.run_well("eval", "gsm8k", "-m", program.MINI, "--data", directory / "data.jsonl", "--num-shots",
                                0, "--num-questions", 6, "--max-new-tokens", 1, "--json", "--out",
                                directory / "out.jsonl")
        result = json.loads(done.stdout)
        answers = program.json_lines((directory / "out.jsonl").read_text())
        self.assertEqual([line["expected"] for line in answers[:3]], ["1234"] * 3)
        self.assertEqual(result["questions"], 6)
        self.assertEqual(result["right"], sum(line["right"] for line in answers))
        self.assertEqual(result["accuracy"], result["right"] / 6)
        self.assertEqual(result["invalid"], sum(line["answer"] is None for line in answers) / 6)
        self.assertEqual(result["output_tokens"], 6)

    def test_bad_data_is_named_by_its_line(self):
        directory = program.temporary_directory(self)
        good = json.dumps({"question": "q", "answer": "1"})
        for bad in ("{", "[]", '{"question": "q"}', '{"question": 1, "answer": "1"}',
                    '{"question": "q", "answer": "none"}'):
            (directory / "data.jsonl").write_text(f"{good}\n\n{bad}\n")
            done = program.run("eval", "gsm8k", "-m", program.MINI, "--data", directory / "data.jsonl")
            self.assertEqual(done.returncode, 3)
            self.assertIn("data.jsonl, line 3", done.stderr)
        done = program.run("eval", "gsm8k", "-m", program.MINI, "--data", DATA, "--out", directory / "absent/out.jsonl")
        self.assertEqual(done.returncode, 3)
        self.assertIn("absent/out.jsonl", done.stderr)
        done = program.run("eval", "gsm8k", "-m", program.MINI, "--data", DATA, "--num-shots", 200)
        self.assertEqual(done.returncode, 2)
        self.assertIn("--num-shots", done.stderr)
        done = program.run("eval", "gsm8k", "-m", program.MINI, "--data", DATA, "--out", "/dev/full",
                           "--num-questions", 1)
        self.assertEqual(done.returncode, 3)
        self.assertIn("No space left", done.stderr)


class Bench(unittest.TestCase):
    def bench(self, *arguments, model=program.MINI):
        return json.loads(program.run_well("bench", *arguments, "-m", model, "--json").stdout)

    def test_decode_compares_modes_and_says_how_steps_ran(self):
        result = self.bench("decode", "--modes", "eager,aot_eager,force_eager,full", "--batch-size", "1,3",
                            "--input-len", 20, "--steps", 3, "--rounds", 2)
        self.assertEqual([(line["mode"], line["batch_size"]) for line in result["results"]],
                         [(mode, batch) for batch in (1, 3) for mode in program.MODES])
        for line in result["results"]:
            self.assertGreater(line["tokens_per_second"], 0)
            self.assertGreater(line["share_of_limit"], 0)
            self.assertGreater(line["read_bytes_per_second"], 0)
        self.assertGreater(result["weight_bytes"], 4e6)
        steps = 2 * (2 + 2 * 4)  # for each batch size two steps ahead, then two rounds of 1 + 3
        self.assertEqual(result["decode_steps"]["full"]["replayed"], steps)
        self.assertEqual(sum(result["decode_steps"]["full"].values()), steps)
        self.assertEqual(result["decode_steps"]["eager"]["mode"], steps)

    def test_decode_names_what_was_not_replayed(self):
        result = self.bench("decode", "--batch-size", "3", "--graph-max-bs", "2", "--input-len", 20, "--steps", 2,
                            "--rounds", 1, "--modes", "full")
        self.assertEqual(result["decode_steps"]["full"]["above_largest_bucket"], 5)
        self.assertEqual(result["decode_steps"]["full"]["replayed"], 0)

    def test_decode_compares_with_passes_and_without_and_counts_launches(self):
        result = self.bench("decode", "--batch-size", "2", "--input-len", 20, "--steps", 2, "--rounds", 1)
        lines = {line["mode"]: line for line in result["results"]}
        self.assertEqual(list(lines), ["eager", "force_eager", "piecewise", "full", "full_no_passes"])
        launches = {mode: line["launches_per_step"] for mode, line in lines.items()}
        issued = {mode: line["launches_issued_per_step"] for mode, line in lines.items()}
        self.assertLess(launches["full"], launches["full_no_passes"])
        self.assertEqual(launches["full_no_passes"], launches["eager"])
        self.assertEqual(launches["piecewise"], launches["full"])
        self.assertEqual(launches["force_eager"], launches["full"])
        # Attention makes two launches in each of five layers.
        self.assertEqual(issued, {"eager": launches["eager"], "force_eager": launches["full"], "piecewise": 10,
                                  "full": 0, "full_no_passes": 0})
        for mode in ("piecewise", "full", "full_no_passes"):
            self.assertEqual(result["decode_steps"][mode]["replayed"], 5)

    def test_tables_name_the_modes(self):
        done = program.run_well("bench", "decode", "-m", program.MINI, "--input-len", 8, "--steps", 2, "--rounds", 1,
                                "--modes", "eager,piecewise,full", "--batch-size", 1)
        # A busy machine may leave a line on shares above the limit behind the table.
        self.assertRegex(done.stdout, r"\neager +1 .* % .*\npiecewise +1 .* % .*\nfull +1 .* % .*\n"
                                      r"(\* above .*\n)?batch 1: bandwidth: ")
        self.assertRegex(done.stdout, r"; products of bfloat16: \d+\.\d G/s\n")
        self.assertRegex(done.stdout, r"\nfull: decode steps 5 replayed, 0 eager\n")
        self.assertIn("each replays 6 pieces and runs eagerly between them, as splitting_ops says: 5 paged_attention",
                      done.stdout)
        done = program.run_well("bench", "prefill", "-m", program.MINI, "--input-len", "4,9", "--rounds", 1)
        self.assertRegex(done.stdout, r"\neager +4 .*\nfull +4 .*\neager +9 .*\nfull +9 .*\n")
        done = program.run_well("bench", "replay", "-m", program.MINI, "--steps", 2, "--rounds", 1, "--counted-steps",
                                5)
        self.assertRegex(done.stdout, r"\nfull +5 +0 +25 +0 +0 +0\n")

    def test_batch_runs_from_the_prompts_to_the_last_tokens(self):
        result = self.bench("batch", "--batch-size", "1,3", "--input-len", 20, "--output-len", "1,4",
                            "--max-prefill-tokens", 16, "--rounds", 2)
        self.assertEqual([(line["mode"], line["batch_size"], line["output_len"]) for line in result["results"]],
                         [(mode, batch, output) for batch in (1, 3) for output in (1, 4) for mode in ("eager", "full")])
        for line in result["results"]:
            self.assertEqual("median_decode_latency" in line, line["output_len"] == 4)
            total = line["batch_size"] * (20 + line["output_len"])
            self.assertAlmostEqual(line["overall_throughput"], total / line["total_latency"], delta=1e-6 * total / line["total_latency"])
        # A step ahead, then in two rounds all but the first token, which the prompts' last step yields.
        self.assertEqual(result["decode_steps"]["full"]["replayed"], 2 * (1 + 2 * 3))
        self.assertEqual(result["decode_steps"]["eager"]["mode"], 2 * (1 + 2 * 3))
        # 20 tokens are two steps of up to 16, 60 are four: prompts share steps.
        self.assertEqual(result["prefill_steps"]["full"]["prefill"], 2 * (1 + 2) * (2 + 4))
        done = program.run_well("bench", "batch", "-m", program.MINI, "--batch-size", 2, "--input-len", 9,
                                "--output-len", 3, "--rounds", 1, "--modes", "full")
        self.assertRegex(done.stdout, r"\nfull: batch size 2, input length 9, output length 3\n"
                                      r"Prefill\. latency: +\d+\.\d{5} s, throughput: +\d+\.\d\d token/s\n"
                                      r"Decode\.  median latency: +\d+\.\d{5} s, median throughput: +\d+\.\d\d token/s\n"
                                      r"Total\. latency: +\d+\.\d{3} s, throughput: +\d+\.\d\d token/s\n"
                                      r"Of the limit: prefill \d+\.\d %( \*)?, decode \d+\.\d %( \*)?\n")

    def test_experts_are_moved_between_measured_steps(self):
        with tempfile.TemporaryDirectory() as directory:
            dump = os.path.join(directory, "load.jsonl")
            self.bench("decode", "--modes", "full", "--batch-size", 4, "--input-len", 20, "--steps", 9, "--rounds", 1,
                       "--ep-num-redundant-experts", 4, "--eplb-rebalance-num-iterations", 5, "--expert-load-dump", dump,
                       model=program.MINI_MOE)
            with open(dump, encoding="utf-8") as lines:
                windows = [json.loads(line) for line in lines]
        self.assertEqual(sorted({tuple(window["steps"]) for window in windows})[:2], [(0, 4), (5, 9)])
        self.assertGreater(len({tuple(window["physical_to_logical"]) for window in windows if window["layer"] == 0}), 1)
        self.assertGreater(sum(sum(window["logical_count"]) for window in windows), 0)

    def test_lengths_that_no_number_holds_are_refused(self):
        done = program.run("bench", "batch", "-m", program.MINI, "--input-len", 2147483647, "--output-len", 32)
        self.assertEqual(done.returncode, 2)
        self.assertIn("2147483679 tokens", done.stderr)

    def test_prefill_reads_in_chunks(self):
        result = self.bench("prefill", "--input-len", "16,40", "--max-prefill-tokens", 16, "--rounds", 2)
        self.assertEqual([line["input_length"] for line in result["results"]], [16, 16, 40, 40])
        self.assertEqual(result["prefill_steps"]["full"]["prefill"], 3 * (1 + 3))
        self.assertEqual(result["prefill_steps"]["eager"]["mode"], 3 * (1 + 3))

    def test_replay_costs_no_dispatch_and_no_malloc(self):
        result = self.bench("replay", "--steps", 20, "--rounds", 3)
        full, eager = result["full"], result["eager"]
        self.assertLess(full["launches_per_step"], eager["launches_per_step"])  # fusions
        self.assertEqual(full["replays"], 1000)
        self.assertEqual(full["task_updates"], 1000 * 5)
        for name in ("launches_issued", "method_calls", "operator_dispatches"):
            self.assertEqual(full[name], 0, name)
        self.assertIn(full["mallocs"], (0, None))
        self.assertEqual(eager["method_calls"], 1000)
        self.assertGreater(eager["operator_dispatches"], 1000 * 100)
        self.assertLess(full["us_per_step"], eager["us_per_step"])

    def test_kernels_are_held_against_memory_and_multipliers(self):
        rows_only = ["swiglu", "swiglu_quantize", "add_rms_norm_quantize", "embedding_rms_norm", "quantize",
                     "split_qkv_rms_norm_rope_store"]
        kernels = ["linear", "int8_linear", "paged_attention", *rows_only]
        result = self.bench("kernels", "--kernels", ",".join(kernels), "--rows", "1,130", "--context", 32, "--rounds", 1,
                            "--working-set", 1)
        self.assertEqual({line["kernel"] for line in result["results"]}, set(kernels))
        self.assertEqual({line["rows"] for line in result["results"]}, {1, 130})
        self.assertEqual(set(result["multiply_adds_per_second"]), {"float32", "bfloat16", "int8"})
        self.assertGreater(result["bytes_per_second"], 0)
        for line in result["results"]:
            self.assertGreater(line["seconds"], 0)
            if line["kernel"] in rows_only:
                self.assertNotIn("share_of_limit", line)
                continue
            shares = [line[share] for share in ("share_of_bandwidth", "share_of_peak") if share in line]
            self.assertEqual(line["share_of_limit"], max(shares))
            self.assertIsInstance(line["limit_disturbed"], bool)
            self.assertIn(line["limit"], ("memory", "multiply"))
            self.assertGreater(line["multiply_adds"], 0)
        # Keys and values of an int8 cache come with a scale each.
        config = json.loads((program.MINI / "config.json").read_text())
        elements = 2 * 32 * config["num_key_value_heads"] * config["head_dim"]
        self.assertEqual({line["dtype"]: line.get("bytes") for line in result["results"]
                          if line["kernel"] == "paged_attention" and line["rows"] == 1},
                         {"bfloat16": 2 * elements, "int8": elements + elements // config["head_dim"] * 4})
        # Of a prompt only the last row goes through the output head.
        self.assertEqual({line["rows"] for line in result["results"] if line["of"].startswith("lm_head")}, {1})

    def test_kernels_of_experts_are_measured(self):
        kernels = "grouped_linear,int8_grouped_linear,moe_experts,int8_moe_experts,moe_gating_top_k"
        result = self.bench("kernels", "--kernels", kernels, "--rows", 3, "--rounds", 1, "--working-set", 1,
                            model=program.MINI_MOE)
        self.assertEqual([(line["kernel"], line["dtype"]) for line in result["results"]],
                         [("grouped_linear", "bfloat16")] * 2 + [("moe_experts", "bfloat16")] +
                         [("int8_grouped_linear", "int8")] * 2 + [("int8_moe_experts", "int8")] +
                         [("moe_gating_top_k", "float32")])
        done = program.run_well("bench", "kernels", "-m", program.MINI_MOE, "--kernels", "rms_norm,grouped_linear",
                                "--rows", 3, "--rounds", 1, "--working-set", 1)
        self.assertRegex(done.stdout, r"\ngrouped_linear gate_up 2 of 8, .* bfloat16 +3 .* (memory|multiply)\n")
        self.assertRegex(done.stdout, r"\nrms_norm \d+ .* -\n")

    def test_wrong_options_are_named(self):
        for arguments in (("kernels", "--rows", "0"), ("kernels", "--kernels", "conv"),
                          ("kernels", "--kernels", "rms_norm,moe_experts"), ("decode", "--batch-size", "0"), ("decode", "--input-len", "1"),
                          ("decode", "--input-len", "4000"), ("decode", "--modes", "fast"),
                          ("prefill", "--input-len", "1"), ("replay", "--rounds", "0"), ("replay", "--mode", "full")):
            done = program.run("bench", *arguments, "-m", program.MINI)
            self.assertEqual(done.returncode, 2, arguments)
            self.assertTrue(arguments[1] in done.stderr or arguments[2] in done.stderr, done.stderr)


class Synth(unittest.TestCase):
    def test_a_random_model_without_tokenizer_is_measured(self):
        directory = program.temporary_directory(self)
        (directory / "config.json").write_text(json.dumps(SMALL))
        model = directory / "model"
        program.run_well("synth", directory / "config.json", model, "--seed", 3)
        self.assertEqual({path.name for path in model.iterdir()}, {"config.json", "model.safetensors"})
        for command in ("decode", "replay"):
            done = program.run_well("bench", command, "-m", model, "--input-len", 16, "--steps", 2, "--rounds", 1)
            self.assertIn("qwen3 of 3 layers, bfloat16", done.stdout)
        (directory / "ids.json").write_text("[1, 299, 7]")
        program.run_well("logits", "-m", model, "--ids", directory / "ids.json", "-o", directory / "a.safetensors")
        done = program.run("generate", "-m", model, "-p", "x")
        self.assertEqual(done.returncode, 3)
        self.assertIn("tokenizer.json", done.stderr)
        program.run_well("synth", directory / "config.json", directory / "again", "--seed", 3)
        self.assertEqual((directory / "again/model.safetensors").read_bytes(),
                         (model / "model.safetensors").read_bytes())

    def test_a_random_model_with_a_tokenizer_generates(self):
        directory = program.temporary_directory(self)
        (directory / "config.json").write_text(json.dumps({**SMALL, "vocab_size": 2048}))
        model = directory / "model"
        program.run_well("synth", directory / "config.json", model, "--tokenizer", program.MINI)
        self.assertEqual((model / "tokenizer.json").read_bytes(), (program.MINI / "tokenizer.json").read_bytes())
        texts = [program.run_well("generate", "-m", model, "-p", "Question", "-n", 20, "--ignore-eos", "--mode", mode,
                                  "--temperature", 0).stdout for mode in program.MODES]
        self.assertEqual(texts, texts[:1] * 4)

    def test_a_hollow_model_is_counted_on_an_emulated_device(self):
        directory = program.temporary_directory(self)
        # As many columns as the device's fused norms and attention take.
        shape = {**SMALL, "hidden_size": 128, "intermediate_size": 256, "head_dim": 32}
        (directory / "config.json").write_text(json.dumps(shape))
        model = directory / "model"
        program.run_well("synth", directory / "config.json", model, "--hollow", "--scheme", "w8a8")
        emulator = pathlib.Path(program.PROGRAM).resolve().parents[1] / "emulator"
        environment = {**os.environ, "LD_LIBRARY_PATH": str(emulator), "REPRISE_ACL_EXECUTE": "0",
                       "REPRISE_ACL_VALIDATE": "1"}
        done = program.run_well("bench", "launches", "-m", model, "--device", "ascend", "--batch-size", 4,
                                "--input-len", 32, "--steps", 2, "--json", env=environment)
        self.assertIn("acl validation: 0 problems", done.stderr)
        result = {row["mode"]: row for row in json.loads(done.stdout)["results"]}
        self.assertEqual(list(result), ["eager", "full_no_passes", "piecewise", "full"])
        self.assertEqual(result["eager"]["replays"], 0)
        self.assertEqual(result["eager"]["launches"], result["eager"]["kernels"])
        # A graph for all, or one between the attentions of the three layers, which the host launches.
        self.assertEqual([result[mode]["replays"] for mode in ("full", "piecewise")], [1, 4])
        self.assertEqual(result["full"]["updates"], 3)
        self.assertGreaterEqual(result["piecewise"]["launches"], 3)
        # Passes leave out an addition, a norm and a quantisation at each of the six places but the first.
        self.assertLess(result["full"]["kernels"], result["full_no_passes"]["kernels"] - 2 * 5)
        self.assertLess(result["full"]["bytes_read"], result["full_no_passes"]["bytes_read"])
        for row in result.values():
            self.assertGreater(row["seconds"], 0)
        refused = program.run("bench", "launches", "-m", model)
        self.assertEqual(refused.returncode, 2)
        self.assertIn("no emulated device", refused.stderr)

    def test_wrong_shapes_are_named(self):
        directory = program.temporary_directory(self)
        (directory / "config.json").write_text(json.dumps(SMALL))
        for arguments, message in ((("qwen9-1b", directory / "x"), "qwen9-1b"),
                                   ((directory / "absent.json", directory / "x"), "absent.json"),
                                   (("qwen3-0.6b", directory / "x", "--tokenizer", directory), "tokenizer.json"),
                                   ((directory / "config.json", directory / "x", "--tokenizer", program.MINI),
                                    "the vocabulary of")):
            done = program.run("synth", *arguments)
            self.assertIn(done.returncode, (2, 3))
            self.assertIn(message, done.stderr)
        self.assertFalse((directory / "x").exists())


if __name__ == "__main__":
    unittest.main()
