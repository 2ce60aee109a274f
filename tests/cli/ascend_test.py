"""What the program says where an Ascend device is not there, too old, taken, or asked for what it does not do."""
import json
import os
import pathlib
import unittest

import ascend
import program

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
        self.fails(3, ["AscendCL cannot be opened", "install CANN and source its set_env.sh, or use --device cpu"],
                   *GENERATE, "--device", "ascend", environment=environment)

    def test_devices_that_are_not_there_are_named(self):
        self.generate_fails(2, ["there is no device ascend:9: the devices are 0 to 7"], device="ascend:9")
        self.generate_fails(3, ["AscendCL is installed, but there is no device"], profile="910B3,devices=0")

    def test_memory_of_another_process_is_told(self):
        self.generate_fails(4, ["of the 68719476736 bytes of ascend:0 only", "see npu-smi info"],
                            profile="910B3,memory_taken=68000000000")
        _, done = self.statement("--device", "ascend", ACL_PROFILE="910B3,memory_taken=60000000000")
        self.assertIn("another process uses the device", done.stderr)

    def test_streams_that_run_out_are_told(self):
        self.generate_fails(4, ["making the stream", "207008"], profile="910B3,streams=3")

    def test_what_attention_does_not_take_is_refused_before_the_weights_are_read(self):
        self.generate_fails(2, ["float32", "--dtype bfloat16"], "--dtype", "float32")
        self.generate_fails(2, ["int8", "--max-prefill-tokens 1"], "--kv-dtype", "int8")
        self.generate_fails(2, ["page", "multiple of 16"], "--page-size", "24")
        statement, _ = self.statement("--device", "ascend", "--kv-dtype", "int8", "--max-prefill-tokens", "1")
        self.assertEqual(statement["kv_dtype"], "int8")

    def test_a_driver_without_graphs_runs_eagerly_and_counts_it(self):
        statement, done = self.statement("--device", "ascend", ACL_PROFILE="910B3,graphs=0")
        self.assertEqual(statement["decode_steps"]["capture_failed"], 7)
        self.assertEqual(statement["decode_steps"]["replayed"], 0)
        self.assertIn("this device has no captured graphs", done.stderr)
        statement, done = self.statement("--device", "ascend", ACL_PROFILE="910B3,task_groups=0")
        self.assertEqual(statement["decode_steps"]["capture_failed"], 7)
        self.assertIn("this device has no updates of captured launches", done.stderr)

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
