"""Profiles of captures and of running steps, as a user asks for them."""
import json
import shutil
import unittest

import program
from server import Server


def read_trace(path):
    """The events of a trace, after a check against the Trace Event Format as Perfetto's importer takes it: no slice is
    dropped, cut or moved to a track of its own. Times are whole nanoseconds here."""
    def wrong(event, reason):
        raise AssertionError(f"{path}: {reason}: {event}")

    def nanoseconds(event, key):
        value = event.get(key)
        if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value < 1e15:
            wrong(event, f"{key} is no time")
        whole = round(value * 1e3)
        if abs(value * 1e3 - whole) > 1e-3:
            wrong(event, f"{key} is finer than a nanosecond")
        return whole

    def refuse(constant):
        raise AssertionError(f"{path}: {constant} is no JSON")

    trace = json.loads(path.read_text(encoding="utf-8"), parse_constant=refuse)
    events = trace["traceEvents"]
    processes, named, tracks, counters = set(), set(), {}, {}
    for event in events:
        if not isinstance(event.get("name"), str) or not event["name"]:
            wrong(event, "no name")
        # An importer reads ids as 32-bit numbers, and 0 as the idle process.
        if type(event.get("pid")) is not int or not 0 < event["pid"] < 2**31:
            wrong(event, "no process")
        if event["ph"] != "M" and event.get("cat") not in ("host", "device"):
            wrong(event, "no category, which Chromium's developer tools need")
        if event["ph"] == "M":
            if event["name"] not in ("process_name", "thread_name") or not isinstance(event["args"]["name"], str):
                wrong(event, "unknown metadata")
            processes.add(event["pid"])
            if event["name"] == "thread_name":
                named.add((event["pid"], event["tid"]))
        elif event["ph"] == "X":
            if type(event.get("tid")) is not int or not 0 <= event["tid"] < 2**31:
                wrong(event, "no thread")
            begin = nanoseconds(event, "ts")
            tracks.setdefault((event["pid"], event["tid"]), []).append(
                (begin, -(begin + nanoseconds(event, "dur")), event))
        elif event["ph"] == "C":
            if not event["args"] or not all(type(value) in (int, float) for value in event["args"].values()):
                wrong(event, "a counter without numbers")
            at = nanoseconds(event, "ts")
            if at < counters.get(event["name"], 0):
                wrong(event, "a counter goes back in time")
            counters[event["name"]] = at
        else:
            wrong(event, "unknown phase")
        if not isinstance(event.get("args", {}), dict):
            wrong(event, "args are no object")
    for (process, thread), slices in tracks.items():
        if process not in processes or (process, thread) not in named:
            wrong(slices[0][2], "a process or a thread without a name")
        ends = []  # of the slices around the next one
        for begin, end, event in sorted(slices, key=lambda one: one[:2]):
            while ends and ends[-1] <= begin:
                ends.pop()
            if ends and -end > ends[-1]:
                wrong(event, "overlaps another slice of its track")
            if ends and process == 2:
                wrong(event, "a device does two things at once in one lane")
            ends.append(-end)
    return events


class CaptureProfile(unittest.TestCase):
    def check_files(self, directory):
        for name in ("tables.txt", "trace.json", "memory.json"):
            self.assertTrue((directory / name).is_file(), name)
        events = read_trace(directory / "trace.json")
        self.assertGreater(sum(event["ph"] == "X" and event["pid"] == 2 for event in events), 50)
        self.assertGreater(len(json.loads((directory / "memory.json").read_text())["events"]), 0)
        return (directory / "tables.txt").read_text()

    def test_generate_captures_ahead_and_goes_on_as_without(self):
        directory = program.temporary_directory(self)
        arguments = ["generate", "-m", program.MINI, "-p", "Question: What is 2 and 3?\nAnswer:", "-n", 12]
        plain = program.run_well(*arguments)
        done = program.run_well(*arguments, "--enable-profile-cuda-graph", "--profile-dir", directory)
        self.assertEqual(done.stdout, plain.stdout)
        tables = self.check_files(directory / "graph_capture_profile")
        for text in ("Sorted by Device Time:", "Sorted by CPU Time:", "Self Device time total: ",
                     "Idle share of a decode step of 1: "):
            self.assertIn(text, tables)
            self.assertIn(text, done.stderr)
        self.assertIn(f"Memory Usage is saved to {directory}/graph_capture_profile/memory.json", done.stderr)
        self.assertIn(f"Tables are saved to {directory}/graph_capture_profile/tables.txt", done.stderr)
        self.assertRegex(done.stderr, r"decode .* steps: 11 replayed, 0 eager")
        self.assertIn("captures ", done.stderr)

    def test_each_mode_of_a_benchmark_has_a_profile_of_its_own(self):
        directory = program.temporary_directory(self)
        program.run_well("bench", "decode", "-m", program.MINI, "--batch-size", "1,2", "--input-len", 8, "--steps", 2,
                         "--rounds", 1, "--modes", "eager,full,piecewise", "--profile-capture", "--profile-dir",
                         directory)
        self.assertEqual(sorted(path.name for path in directory.iterdir()), ["full", "piecewise"])
        for mode in ("full", "piecewise"):
            self.assertIn("Idle share of a decode step of 2: ",
                          self.check_files(directory / mode / "graph_capture_profile"))

    def test_modes_without_captures_are_refused(self):
        done = program.run("generate", "-m", program.MINI, "-p", "a", "--mode", "eager", "--profile-capture")
        self.assertEqual(done.returncode, 2)
        self.assertIn("--mode eager does not make", done.stderr)


class StepProfile(unittest.TestCase):
    def test_a_server_profiles_running_steps(self):
        directory = program.temporary_directory(self)
        server = Server(program.MINI, "--profile-dir", directory)
        generate = {"text": "Question: What is 2 and 3?\nAnswer:", "sampling_params": {
            "max_new_tokens": 9, "ignore_eos": True, "temperature": 0}}
        try:
            plain = server.post("/generate", generate)[1]["text"]
            self.assertEqual(server.ask("POST", "/stop_profile")[0], 400)
            self.assertEqual(server.ask("POST", "/start_profile")[0], 200)
            self.assertEqual(server.ask("POST", "/start_profile", {})[0], 400)
            self.assertEqual(server.post("/generate", generate)[1]["text"], plain)
            status, _, tables = server.ask("POST", "/stop_profile")
            self.assertEqual(status, 200)
            self.assertIn(b"Idle share of a decode step of 1: ", tables)
            self.assertRegex(tables, rb"linear\.\S+ .* \[\[1, 192\], \[1024, 192\], \[\]\]\n")

            # So many steps, and then by itself.
            self.assertEqual(server.ask("POST", "/start_profile", {"num_steps": 3})[0], 200)
            server.post("/generate", generate)
            self.assertEqual(len(list(directory.glob("profile-*/trace.json"))), 2)
            last = max(directory.glob("profile-*"), key=lambda path: path.name)
            events = read_trace(last / "trace.json")
            self.assertEqual(sum(event["name"].startswith(("decode step of", "prompt step of")) for event in events), 3)
            self.assertEqual(server.ask("GET", "/stop_profile")[0], 200)
            self.assertEqual(server.post("/generate", generate)[1]["text"], plain)

            for body in ({"output_dir": "/tmp/x"}, {"num_steps": 0}, {"with_stack": True}, {"other": 1}):
                self.assertEqual(server.ask("POST", "/start_profile", body)[0], 400, body)
            # Where nothing can be written is told at once, and a profile may be asked for again.
            shutil.rmtree(directory)
            directory.write_text("")
            status, _, fault = server.ask("POST", "/start_profile")
            self.assertEqual(status, 500)
            self.assertIn(b"cannot make ", fault)
            directory.unlink()
            # One that is running when the server ends.
            self.assertEqual(server.ask("POST", "/start_profile", {"activities": ["CPU"], "with_stack": False})[0], 200)
        finally:
            code, log = server.stop()
        self.assertEqual(code, 0, log)


if __name__ == "__main__":
    unittest.main()
