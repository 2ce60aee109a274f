#!/usr/bin/env python3
"""Official clients of two makers against running servers: what they parse out of answers and streams."""
import json
import subprocess
import unittest

import program
import two_servers
from scripted_model import FAILURE, write_model
from server import Server

# What parsers of events may take for an end: the end of the stream, comments, fields, and every kind of line end.
ODD = ["data: [DONE]\n\n", "\r\n: no comment\r\n\r\n", "event: error\ndata: {}\n\n", "\u2028", "a\u0085", "b\u2029",
       "\x0b\x0c\x1c\x1e", "\u0000\u007f\"\\/", "\ufeff", b"\xf0\x9f", b"\x98\x80", "\r\r\n",
       "e\u0301\U0001F468\u200D\U0001F469"]
# What a user says ends with the character that chooses.
ODD_SCRIPTS = {"\n": ODD, "!": ["This ", "goes ", "well ", "until", FAILURE]}
ODD_TEMPLATE = "{{ messages[-1].content }}"


def text_of(words):
    return b"".join(word if isinstance(word, bytes) else word.encode() for word in words).decode()


def setUpModule():
    global servers, odd
    servers = two_servers.TwoServers()
    unittest.addModuleCleanup(servers.stop)
    odd = Server(write_model(servers.directory / "odd", ODD_SCRIPTS, ODD_TEMPLATE), "--served-model-name", "odd")
    unittest.addModuleCleanup(odd.stop)


class OfficialClients(unittest.TestCase):
    def check(self, script, package):
        packages = program.ROOT / "build/npm"
        fetched = subprocess.run([program.ROOT / "scripts/fetch_test_packages"], capture_output=True, text=True,
                                 check=False)
        if not (packages / "node_modules" / package).is_dir():
            self.skipTest(f"the client cannot be fetched: {fetched.stderr}")
        urls = [f"http://127.0.0.1:{server.port}" for server in (servers.mini, servers.scripted, odd)]
        done = subprocess.run(["node", program.ROOT / "tests/cli" / script, packages, *urls, json.dumps(text_of(ODD))],
                              capture_output=True, text=True, timeout=120, check=False)
        self.assertEqual(done.returncode, 0, done.stdout + done.stderr)
        self.assertRegex(done.stdout, r"^[1-9]\d* passed, 0 failed\n$")

    def test_b75_lines_end_where_events_do(self):
        # Parsers that read text instead of bytes take more characters for line ends than the two of the standard.
        for path, body in (("/v1/completions", {"prompt": "Odd?\n"}), ("/generate", {"text": "Odd?\n"}),
                           ("/v1/completions", {"prompt": "Odd?\n", "logprobs": 2}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Odd?\n"}]}),
                           ("/v1/chat/completions", {"messages": [{"role": "user", "content": "Odd?\n"}],
                                                     "logprobs": True, "top_logprobs": 2})):
            with self.subTest(path=path, body=body):
                text = odd.stream_bytes(path, {"stream": True, **body}).decode("utf-8", "strict")
                self.assertEqual(text.splitlines(), text.removesuffix("\n").split("\n"))
                self.assertNotIn("\r", text)

    def test_b75_openai(self):
        self.check("openai_client.mjs", "openai")

    def test_b75_ai_sdk(self):
        self.check("ai_sdk_client.mjs", "@ai-sdk/openai-compatible")


if __name__ == "__main__":
    unittest.main()
