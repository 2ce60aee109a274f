"""Two servers for the tests of a module: the bundled model, and one that says what scripts tell it to. And the requests
that are put to them."""
import pathlib
import shutil
import tempfile

from program import MINI, ROOT
from scripted_model import write_model
from server import Server

QUESTION = "Question: Ann has 3 pens and buys 4. How many pens has she?\nAnswer:"
SCRIPTS = {
    "\n": ["<think>", "\nhm, ", "the weather\n", "</think>", "\n\nI ask", " for it.", "\n\t", "<tool_call>",
           "\n{\"name\": \"get_weather\", ", "\"arguments\": {\"city\": \"K\u00f6ln\"}}", "\n ", "</tool_call>"],
    ">": ["AB", "CD", "EF", "G\U0001F642", "HI"],
    "e": [b"\xf0\x9f", b"\x99", b"\x82", " ok"],
    "s": ["PQ", "R", "<|endoftext|>", "ST", "UV"],
}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "Tells the weather.",
                                           "parameters": {"type": "object", "properties": {"city": {"type": "string"}}}}}]


class TwoServers:
    def __init__(self):
        self.directory = pathlib.Path(tempfile.mkdtemp())
        template = (ROOT / "tests/data/text/qwen3_chat_template.jinja").read_text()
        model = write_model(self.directory / "scripted", SCRIPTS, template)
        self.mini = Server(MINI, "--served-model-name", "mini", "--max-body-bytes", 200_000, "--access-log")
        self.scripted = Server(model, "--served-model-name", "scripted")

    def stop(self):
        results = [self.mini.stop(), self.scripted.stop()]
        shutil.rmtree(self.directory)
        for code, log in results:
            assert code == 0, log
            assert "error" not in log.lower().replace("errors", ""), log
            assert "Ann has" not in log, "the log holds what clients wrote"


def completion(**fields):
    return {"model": "m", "prompt": QUESTION, "max_tokens": 24, **fields}


def chat(**fields):
    return {"model": "m", "messages": [{"role": "user", "content": "How many?"}], "max_tokens": 24, **fields}


def counts_of(answer):
    """Without what the prefix cache has found, which grows."""
    return {name: count for name, count in answer["usage"].items() if name != "prompt_tokens_details"}


def text_of(events):
    return "".join(choice.get("text", "") for event in events for choice in event["choices"])
