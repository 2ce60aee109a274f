"""tools/check_layers catches what it is for, and lets pass what is allowed."""

import os
import subprocess
import sys
import tempfile
import unittest

TOOL = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "tools", "check_layers")


def check(files):
    """Runs the tool on a tree of the given files; returns its exit code and what it printed."""
    with tempfile.TemporaryDirectory() as root:
        for path, text in files.items():
            full = os.path.join(root, path)
            os.makedirs(os.path.dirname(full), exist_ok=True)
            with open(full, "w", encoding="utf-8") as file:
                file.write(text)
        result = subprocess.run([sys.executable, TOOL, "--root", root], stdout=subprocess.PIPE,
                                stderr=subprocess.DEVNULL, text=True, check=False)
        return result.returncode, result.stdout


class CheckLayers(unittest.TestCase):
    def assert_caught(self, files, expected):
        code, output = check(files)
        self.assertEqual(code, 1, output)
        self.assertIn(expected, output)
        self.assertEqual(output.count("\n"), 1, output)

    def assert_clean(self, files):
        self.assertEqual(check(files), (0, ""))

    def test_allows_direct_and_transitive_arrows(self):
        self.assert_clean({
            "src/base/error.h": "#pragma once\n#include <string>\n",
            "src/ops/registry.h": '#include "base/error.h"\n',
            "src/graph/graph.h": '#include "ops/registry.h"\n#include "base/error.h"\n',
            "src/engine/engine.cc": '#include "graph/graph.h"\n#include "engine/engine.h"\n',
            "src/engine/engine.h": "",
        })

    def test_catches_an_upward_include(self):
        self.assert_caught({"src/base/error.cc": '\n#include "tensor/tensor.h"\n', "src/tensor/tensor.h": ""},
                           "src/base/error.cc:2: base/ may not use tensor/")

    def test_catches_a_sideways_include(self):
        self.assert_caught({"src/model/qwen3.cc": '#include "graph/graph.h"\n', "src/graph/graph.h": ""},
                           "model/ may not use graph/")

    def test_catches_a_link_edge(self):
        self.assert_caught({"src/CMakeLists.txt": "reprise_library(text DEPS base tensor LINK fmt::fmt)\n"},
                           "src/CMakeLists.txt:1: text/ may not link tensor/")

    def test_catches_an_unknown_folder(self):
        self.assert_caught({"src/utils/all.h": ""}, "utils is not in the table")

    def test_catches_an_include_without_folder(self):
        self.assert_caught({"src/base/error.cc": '#include "error.h"\n', "src/base/error.h": ""}, "is no file of src/")

    def test_keeps_device_folders_to_themselves_and_the_program(self):
        device = {"src/device/cpu/stream.h": "struct CpuStream {};\n"}
        include = '#include "device/cpu/stream.h"\n'
        for path in ("src/cli/main.cc", "src/kernels/cpu/register.cc", "src/device/cpu/stream.cc"):
            self.assert_clean({**device, path: include})
        for path in ("src/replay/runner.cc", "src/device/stream.cc", "src/device/ascend/stream.cc"):
            self.assert_caught({**device, path: include}, "only the program and the device itself")

    def test_raw_kernels_see_base_only_and_registration_files_see_operators(self):
        files = {"src/ops/registry.h": "", "src/tensor/tensor.h": ""}
        text = '#include "ops/registry.h"\n#include "tensor/tensor.h"\n'
        self.assert_clean({**files, "src/kernels/cpu/register_linear.cc": text})
        self.assert_caught({**files, "src/kernels/cpu/linear.cc": '#include "ops/registry.h"\n'},
                           "kernels/ may not use ops/")

    def test_catches_device_names_in_code(self):
        for code in ("int cpu_count;", "struct NpuGraph {};", "enum { kCUDA };", "bool b = kind() == \"ascend\";",
                     "int x = aclrtMalloc(1);"):
            self.assert_caught({"src/engine/engine.h": code + "\n"}, "src/engine/engine.h:1: names a device")

    def test_allows_device_names_in_comments_messages_and_longer_words(self):
        self.assert_clean({
            "src/engine/engine.h": "// the CPU waits\n/* cuda\n */ const char* text = \"no cpu left\"; int oracle, miracle;\n"
                                   "const long big = 1'000'000; // cpu\n",
            "src/base/quota.h": "double cpu_quota();\n",
        })

    def test_catches_heavy_headers_in_headers_only(self):
        for header in ("nlohmann/json.hpp", "CLI/CLI.hpp", "spdlog/spdlog.h"):
            self.assert_caught({"src/base/x.h": f"#include <{header}>\n"}, "heavy header")
            self.assert_clean({"src/base/x.cc": f"#include <{header}>\n", "src/base/y.h": "#include <nlohmann/json_fwd.hpp>\n"})

    def test_compares_the_documented_table(self):
        code, output = check({"docs/architecture.md": "| `text/` | words | base, tensor |\n"})
        self.assertEqual(code, 1)
        self.assertIn("the table says text/ may use ['base', 'tensor']", output)


if __name__ == "__main__":
    unittest.main()
