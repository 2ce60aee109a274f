"""reprise chat as a user calls it: with lines from a pipe, and in a terminal."""
import os
import pty
import re
import select
import signal
import subprocess
import time
import unittest

import program

ADA = "Ada has 15 coins and gives 6 of them to Qian. How many coins are left?"
ANSWER = "15 - 6 = 9 coins are left.\n#### 9\n"
# Writes what a message says, with a think block before it.
THINKING = ("{% for m in messages %}{{ '<|im_start|>' + m['role'] + '\\n' + m['content'] + '<|im_end|>\\n' }}"
            "{% endfor %}{{ '<|im_start|>assistant\\n<think>\\n' }}")


def chat(*arguments, **options):
    return program.run("chat", "-m", program.MINI, *arguments, **options)


class Terminal:
    """The program with a terminal of its own."""

    def __init__(self, test, *arguments):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen([program.PROGRAM, "chat", "-m", str(program.MINI), *arguments], stdin=slave,
                                        stdout=slave, stderr=slave, start_new_session=True,
                                        preexec_fn=lambda: __import__("fcntl").ioctl(0, 0x540E, 0))  # TIOCSCTTY
        os.close(slave)
        self.shown = ""
        test.addCleanup(self.close)

    def close(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def read_until(self, pattern, timeout=60):
        """What is shown up to the end of the pattern."""
        deadline = time.monotonic() + timeout
        while True:
            found = re.search(pattern, self.shown)
            if found:
                seen, self.shown = self.shown[:found.end()], self.shown[found.end():]
                return seen
            if time.monotonic() > deadline or not select.select([self.master], [], [], timeout)[0]:
                raise AssertionError(f"no {pattern!r} in {self.shown!r}")
            try:
                self.shown += os.read(self.master, 65536).decode(errors="replace")
            except OSError:
                raise AssertionError(f"ended without {pattern!r}: {self.shown!r}") from None

    def send(self, text):
        os.write(self.master, text.encode())


class Chat(unittest.TestCase):
    def test_answers_each_line_of_a_pipe(self):
        done = chat(stdin=ADA + "\n")
        self.assertEqual((done.returncode, done.stdout), (0, ANSWER))
        self.assertRegex(done.stderr, r"(?s) kernels\nmode .*decode .* replayed, 0 eager")
        self.assertEqual(chat("--quiet", stdin=ADA).stderr, "")

    def test_remembers_until_it_is_told_to_forget(self):
        again = chat("--quiet", stdin=f"{ADA}\n{ADA}\n").stdout
        self.assertTrue(again.startswith(ANSWER))
        # The second answer comes of the first one as well; without it, it is the same again.
        done = chat("--quiet", stdin=f"{ADA}\n/reset\n{ADA}\n")
        self.assertEqual(done.stdout, ANSWER * 2)
        self.assertEqual(done.stderr, "(the conversation is forgotten)\n")
        self.assertEqual(chat("--quiet", stdin=f"{ADA}\n/exit\n{ADA}\n").stdout, ANSWER)

    def test_a_backslash_joins_lines_and_commands_are_told(self):
        joined = chat("--quiet", stdin=ADA.replace(". ", ".\\\n") + "\n")
        self.assertEqual(joined.returncode, 0)
        self.assertRegex(joined.stdout, r"#### \d+\n")
        done = chat("--quiet", stdin="/help\n/nothing\n\n  \n/stats\n")
        self.assertEqual(done.stdout, "")
        self.assertIn("/reset", done.stderr)
        self.assertIn("there is no command /nothing", done.stderr)
        self.assertIn("mode      full", done.stderr)

    def test_the_limit_of_tokens_is_told(self):
        done = chat("--quiet", "-n", "3", stdin=ADA)
        self.assertIn("(cut off after 3 tokens)", done.stderr)

    def test_sampling_is_that_of_generate(self):
        arguments = ("--quiet", "--temperature", "1.5", "-n", "24", "--ignore-eos")
        first = chat(*arguments, "--seed", "1", stdin=ADA).stdout
        self.assertEqual(chat(*arguments, "--seed", "1", stdin=ADA).stdout, first)
        self.assertNotEqual(chat(*arguments, "--seed", "2", stdin=ADA).stdout, first)
        wrong = chat("--temperature", "-1", stdin=ADA)
        self.assertEqual(wrong.returncode, 2)
        self.assertIn("temperature", wrong.stderr)

    def test_the_system_message_and_arguments_reach_the_template(self):
        path = program.temporary_directory(self) / "template"
        path.write_text("{{ raise_exception(messages|map(attribute='role')|join(',') ~ ' ' ~ a ~ ' ' ~ b) }}")
        done = chat("--template", path, "--system", "Be brief.", "--template-argument", "a=x=1", "--template-argument",
                    "b=false", stdin="hi")
        self.assertEqual(done.returncode, 2)
        self.assertIn("system,user x=1 False", done.stderr)
        for wrong in ("a", "=1", "messages=1", "banana=1"):
            done = chat("--template-argument", wrong, stdin="hi")
            self.assertEqual(done.returncode, 2)
        self.assertIn("the chat template does not read 'banana'", done.stderr)

    def test_reasoning_is_hidden_in_a_pipe_unless_it_is_asked_for(self):
        path = program.temporary_directory(self) / "template"
        path.write_text(THINKING)
        hidden = chat("--quiet", "--template", path, "-n", "8", stdin=ADA)
        self.assertEqual(hidden.stdout, "")
        self.assertIn("(cut off after 8 tokens, still thinking)", hidden.stderr)
        self.assertNotEqual(chat("--quiet", "--template", path, "-n", "8", "--thinking", "show", stdin=ADA).stdout, "")

    def test_a_conversation_that_does_not_fit_is_refused(self):
        done = chat("--max-context", "32", stdin=ADA * 3)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/reset", done.stderr)

    def test_a_model_without_a_template_is_refused_before_it_is_loaded(self):
        done = program.run("chat", "-m", program.CHECKPOINTS / "dense", stdin="hi")
        self.assertEqual((done.returncode, done.stdout), (2, ""))
        self.assertIn("has no chat template", done.stderr)
        self.assertIn("--template", done.stderr)

    def test_control_tokens_of_messages_are_text(self):
        # Read as a token, it would end the user's turn, and the model would answer to something else.
        message = "<|im_end|>"
        self.assertNotEqual(chat("--quiet", "-n", "8", stdin=message).stdout,
                            chat("--quiet", "-n", "8", "--allow-special-in-content", stdin=message).stdout)

    def test_an_interrupt_ends_a_chat_that_reads_from_a_pipe(self):
        process = subprocess.Popen([program.PROGRAM, "chat", "-m", str(program.MINI), "--ignore-eos", "--quiet"],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        self.addCleanup(process.kill)
        process.stdin.write(ADA.encode() + b"\n")
        process.stdin.flush()
        self.assertNotEqual(process.stdout.read(1), b"")
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 130)
        self.assertIn(b"interrupted", errors)


class InATerminal(unittest.TestCase):
    def test_stops_an_answer_and_goes_on(self):
        terminal = Terminal(self, "--ignore-eos")
        terminal.read_until(r"> $")
        terminal.send(ADA + "\n")
        terminal.read_until(r"9 coins are left")
        terminal.send("\x03")
        terminal.read_until(r"\(stopped\)\r\n> ")
        terminal.send("half a line\x03")
        terminal.read_until(r"Ctrl-D or /exit leaves.*\r\n> ")
        terminal.send("/reset\n")
        terminal.read_until(r"forgotten\)\r\n> ")
        terminal.send("\x04")
        terminal.read_until(r"mode +full")
        self.assertEqual(terminal.process.wait(timeout=60), 0)

    def test_reasoning_is_dimmed(self):
        path = program.temporary_directory(self) / "template"
        path.write_text(THINKING)
        terminal = Terminal(self, "--template", str(path), "-n", "8", "--quiet")
        terminal.read_until(r"> $")
        terminal.send(ADA + "\n")
        terminal.read_until("\x1b\\[2m[^\x1b]+\x1b\\[0m\r\n.*still thinking")

    def test_an_error_leaves_the_conversation_as_it_was(self):
        terminal = Terminal(self, "--max-context", "96")
        terminal.read_until(r"> $")
        terminal.send(ADA * 4 + "\n")
        terminal.read_until(r"error: the conversation has \d+ tokens.*\r\n> ")
        terminal.send(ADA + "\n")
        terminal.read_until(r"#### 9\r\n> ")
        terminal.send("/exit\n")
        self.assertEqual(terminal.process.wait(timeout=60), 0)


if __name__ == "__main__":
    unittest.main()
