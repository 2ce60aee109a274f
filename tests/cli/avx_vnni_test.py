"""The program with its AVX-VNNI kernels, on processors that lack them too: a library that is loaded before the program
computes their instructions in software (tests/harness/avx_vnni.h)."""
import json
import os
import pathlib
import platform
import unittest

import program

LIBRARY = pathlib.Path(program.PROGRAM).resolve().parents[1] / "tests/libavx_vnni_preload.so"


def cpu_flags():
    try:
        lines = pathlib.Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return set()
    return next((set(line.split(":")[1].split()) for line in lines if line.startswith("flags")), set())


def environment(**more):
    own = {name: value for name, value in os.environ.items() if name not in ("LD_PRELOAD", "REPRISE_DEBUG_AVX_VNNI")}
    return {**own, "REPRISE_CPU_ISA": "avx2", **more}


@unittest.skipUnless(platform.machine() == "x86_64" and "avx2" in cpu_flags(), "there is no AVX2 here")
@unittest.skipIf("avx_vnni" in cpu_flags(), "this processor has AVX-VNNI, which all tests use")
class EmulatedAvxVnni(unittest.TestCase):
    def run_emulated(self, *arguments):
        """Runs the program well; gives how many instructions were emulated."""
        count = program.temporary_directory(self) / "count"
        program.run_well(*arguments, env=environment(LD_PRELOAD=str(LIBRARY), REPRISE_DEBUG_AVX_VNNI="emulated",
                                                     AVX_VNNI_COUNT_FILE=str(count)))
        return int(count.read_text())

    def test_gives_the_logits_of_avx2_without_dot_products(self):
        for checkpoint in ("dense-w8a8-static", "dense-w8a8-dynamic", "dense-w8a8-ct", "moe-w8a8-ct",
                           "moe-w8a8-dynamic"):
            directory = program.temporary_directory(self)
            reference = program.read_safetensors(program.CHECKPOINTS / checkpoint / "expected.safetensors")
            ids = max((list(reference[name][1]) for name in reference if name.startswith("ids_")), key=len)
            # More rows than a kernel takes at a time; a signal for each instruction is slow.
            (directory / "ids.json").write_text(json.dumps(ids[:7]))
            for mode, form in (("full", ("--decode",)), ("eager", ())):
                with self.subTest(checkpoint=checkpoint, mode=mode, form=form):
                    call = ("logits", "-m", program.CHECKPOINTS / checkpoint, "--ids", directory / "ids.json", "--mode",
                            mode, "--threads", "2", *form)
                    count = self.run_emulated(*call, "-o", directory / "emulated.safetensors")
                    program.run_well(*call, "-o", directory / "plain.safetensors", env=environment())
                    self.assertGreater(count, 1000)
                    self.assertEqual(*((directory / f"{name}.safetensors").read_bytes() for name in ("emulated", "plain")))

    def test_is_refused_where_nothing_emulates_it(self):
        for variables, words in (({"REPRISE_DEBUG_AVX_VNNI": "emulated"}, "nothing in this process emulates AVX-VNNI"),
                                 ({"REPRISE_DEBUG_AVX_VNNI": "emulated", "REPRISE_CPU_ISA": "portable"},
                                  "nothing in this process emulates AVX-VNNI"),
                                 ({"REPRISE_DEBUG_AVX_VNNI": "1"}, 'unknown value "1" of REPRISE_DEBUG_AVX_VNNI')):
            done = program.run("devices", env=environment(**variables))
            self.assertEqual(done.returncode, 2, done.stderr)
            self.assertIn(words, done.stderr)


if __name__ == "__main__":
    unittest.main()
