"""What the program says where an Ascend device is not there, too old, taken, or asked for what it does not do."""
import concurrent.futures
import json
import os
import pathlib
import re
import signal
import subprocess
import time
import unittest

import ascend
import program
from server import Server

# An AscendCL as an old CANN has it, and no emulator: without graphs and without operators.
OLD_CANN = pathlib.Path(program.PROGRAM).resolve().parents[1] / "tests/fake_acl"
GENERATE = ("generate", "-m", program.MINI, "-p", "Question: Ada", "-n", "8", "--temperature", "0")


class Ascend(unittest.TestCase):
    def fails(self, code, messages, *arguments, environment):
        done = program.run(*arguments, env=environment)
        self.assertEqual(done.returncode, code, done.stderr)
        for message in messages:
            self.assertIn(message, done.stderr)
        self.assertEqual(done.stdout, "")

    def generate_fails(self, code, messages, *arguments, device="ascend", profile="910B3"):
        self.fails(code, messages, *GENERATE, "--device", device, *arguments,
                   environment=ascend.environment(ACL_PROFILE=profile))

    def statement(self, *arguments, **settings):
        done = program.run_well(*GENERATE, "--json", *arguments, env=ascend.environment(**settings))
        return json.loads(done.stdout.splitlines()[-1])["statement"], done

    def test_without_libraries_the_remedy_is_told(self):
        environment = {**os.environ, "LD_LIBRARY_PATH": ""}
        self.fails(3, ["AscendCL cannot be opened", "install CANN and source its set_env.sh", "build/release/emulator", "or use --device cpu"],
                   *GENERATE, "--device", "ascend", environment=environment)

    def test_devices_that_are_not_there_are_named(self):
        self.generate_fails(2, ["there is no device ascend:9: the devices are 0 to 7"], device="ascend:9")
        self.generate_fails(3, ["AscendCL is installed, but there is no device"], profile="910B3,devices=0")

    def test_memory_of_another_process_is_told_and_what_it_leaves_is_used(self):
        self.generate_fails(4, ["another process holds memory of the device: see npu-smi info", "--kv-tokens"],
                            profile="910B3,memory_taken=68718000000")
        statement, done = self.statement("--device", "ascend", ACL_PROFILE="910B3,memory_taken=68690000000")
        self.assertIn("another process uses the device", done.stderr)
        more, _ = self.statement("--device", "ascend", "--kv-tokens", "256")
        # A page of requests and one for padded rows; then three.
        self.assertEqual(more["kv_bytes"] * 2, statement["kv_bytes"] * 3)
        done = program.run("generate", "-m", program.MINI, "-p", "Question: Ada", "-n", "200", "--kv-tokens", "128",
                           "--device", "ascend", env=ascend.environment())
        self.assertEqual(done.returncode, 4, done.stderr)
        self.assertIn("KV cache", done.stderr)

    def test_a_server_takes_what_its_steps_need_before_it_is_ready(self):
        small = ascend.environment(ACL_PROFILE="910B3,memory_bytes=60000000")
        server = Server(program.MINI, "--device", "ascend", environment=small)
        body = {"prompt": "Question: Ada", "max_tokens": 4, "temperature": 0}
        try:
            self.assertEqual(server.post("/v1/completions", body)[0], 200)
            self.assertEqual(server.post("/v1/completions", {**body, "prompt": "Ada " * 600})[0], 200)
        finally:
            _, log = server.stop()
        self.assertIn("steps need room as well", log)
        # The device's memory, not the host's.
        self.assertRegex(log, r"Load weight begin\. avail mem=0\.0\d GB")
        self.assertRegex(log, r"available_gpu_mem=0\.0\d GB")
        done = program.run("generate", "-m", program.MINI, "-p", "Question: Ada", "--device", "ascend",
                           env=ascend.environment(ACL_PROFILE="910B3,memory_bytes=20000000"))
        self.assertEqual((done.returncode, done.stdout), (4, ""), done.stderr)
        for message in ("bytes of the device are free", "the KV cache of", "and steps", "those that read prompts"):
            self.assertIn(message, done.stderr)
        told = re.search(r"20000000 bytes (\d+) are free, (\d+) are this process's", done.stderr)
        free, taken = map(int, told.groups())
        self.assertLessEqual(free + taken, 20000000)

    def test_attempts_that_did_not_fit_leave_nothing_behind(self):
        little = ascend.environment(ACL_PROFILE="910B3,memory_bytes=34000000")
        server = Server(program.MINI, "--device", "ascend", environment=little)
        try:
            self.assertEqual(server.post("/v1/completions", {"prompt": "Ada", "max_tokens": 4})[0], 200)
        finally:
            _, log = server.stop()
        self.assertGreaterEqual(log.count("steps need room as well"), 1)

    def test_steps_that_run_eagerly_share_what_memory_is_left(self):
        little = ascend.environment(ACL_PROFILE="910B3,memory_bytes=100000000")
        server = Server(program.MINI, "--device", "ascend", "--mode", "eager", environment=little)
        self.addCleanup(server.stop)
        bodies = [{"prompt": "Question: Ada has 5 coins. " * 6 + str(i), "max_tokens": 8} for i in range(24)]
        with concurrent.futures.ThreadPoolExecutor(len(bodies)) as pool:
            answers = list(pool.map(lambda body: server.post("/v1/completions", body), bodies))
        self.assertEqual([status for status, _ in answers], [200] * len(bodies), answers)

    def test_an_interrupt_ends_a_generation_whose_device_hangs(self):
        process = subprocess.Popen([program.PROGRAM, *map(str, GENERATE), "--device", "ascend"], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, env=ascend.environment(ACL_FAULT="timeout:200"))
        time.sleep(0.7)
        self.assertIsNone(process.poll())
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=15)
        self.assertEqual(process.returncode, 130, errors)
        self.assertIn("interrupted", errors)

    def test_that_nothing_is_computed_is_told(self):
        _, done = self.statement("--device", "ascend", ACL_EXECUTE=0)
        self.assertEqual(done.stderr.count("REPRISE_ACL_EXECUTE is 0"), 1, done.stderr)

    def test_streams_that_run_out_are_told(self):
        self.generate_fails(4, ["making the stream", "207008"], profile="910B3,streams=3")

    def test_what_attention_does_not_take_is_refused_before_the_weights_are_read(self):
        self.generate_fails(2, ["float32", "--dtype bfloat16"], "--dtype", "float32")
        self.generate_fails(2, ["int8", "--max-prefill-tokens 1"], "--kv-dtype", "int8")
        for size in ("24", "528", "1024"):
            self.generate_fails(2, ["page", "multiple of 16 up to 512"], "--page-size", size)
        statement, _ = self.statement("--device", "ascend", "--kv-dtype", "int8", "--max-prefill-tokens", "1")
        self.assertEqual(statement["kv_dtype"], "int8")

    def test_a_driver_without_graphs_runs_eagerly_and_counts_it(self):
        statement, done = self.statement("--device", "ascend", ACL_PROFILE="910B3,graphs=0")
        self.assertEqual(statement["decode_steps"]["capture_failed"], 7)
        self.assertEqual(statement["decode_steps"]["replayed"], 0)
        self.assertIn("this device has no captured graphs", done.stderr)
        self.assertIn("no batch size can be captured", statement["capture_budget"])
        statement, done = self.statement("--device", "ascend", ACL_PROFILE="910B3,task_groups=0")
        self.assertEqual(statement["decode_steps"]["capture_failed"], 7)
        self.assertIn("this device has no updates of captured launches", done.stderr)
        self.assertIn("use the mode piecewise", done.stderr)
        statement, _ = self.statement("--device", "ascend", "--mode", "piecewise", ACL_PROFILE="910B3,task_groups=0")
        self.assertEqual(statement["decode_steps"]["replayed"], 7)

    def test_one_batch_size_is_tried_whatever_the_budget_says(self):
        for mode, steps in (("full", "replayed"), ("piecewise", "capture_failed")):
            statement, _ = self.statement("--device", "ascend", "--mode", mode, ACL_PROFILE="910B3,events=2")
            self.assertEqual(statement["decode_steps"][steps], 7)
            self.assertRegex(statement["capture_budget"], "^0 of 1 batch sizes .*; batch size 1 is tried all the same$")

    def test_auto_takes_a_real_device_and_no_emulated_one(self):
        arguments = GENERATE + ("--device", "auto")
        done = program.run_well(*arguments, env=ascend.environment())
        self.assertNotIn("Ascend", done.stderr)
        done = program.run_well(*arguments, env=ascend.environment(DEVICE="ascend"))
        self.assertIn("Ascend910B3", done.stderr)
        # A card of which nothing but the operators is missing is taken, and says what is missing.
        card = {**os.environ, "LD_LIBRARY_PATH": str(OLD_CANN)}
        self.fails(2, ["operators cannot be called: aclCreateTensor", "--device cpu"], *arguments, environment=card)
        for cpu in (["--device", "cpu"], ["--device", "auto", "--threads", "1"]):
            program.run_well(*GENERATE, *cpu, env=card)
        program.run_well(*arguments, env={**card, "REPRISE_DEVICE": "cpu"})


if __name__ == "__main__":
    unittest.main()
