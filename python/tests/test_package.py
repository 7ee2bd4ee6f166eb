"""Tests of the package with nothing but Python: `python3 -m unittest` with the package's directory on the path."""

import collections
import doctest
import gc
import html
import importlib.util
import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
import traceback
import unittest
import warnings

import tailback as tb
from tailback import verbs

ROOT = pathlib.Path(__file__).resolve().parents[2]
DUMBBELL = ROOT / "scenarios/dumbbell.toml"
SHORT = {"duration": "2 s", "flow.0.count": 2}


def command(*words):
    """Runs the command in a process of its own; gives what it prints and its exit code."""
    done = subprocess.run(
        [sys.executable, "-m", "tailback", *map(str, words)], capture_output=True, check=False, stdin=subprocess.DEVNULL
    )
    return done.stdout.decode(), done.returncode


class Case(unittest.TestCase):
    """Tests in a directory with the recording of one test in virtual time."""

    @classmethod
    def setUpClass(cls):
        cls.directory = tempfile.TemporaryDirectory()
        cls.before = os.getcwd()
        os.chdir(cls.directory.name)
        cls.home = tb.test(link="adsl", virtual=True, output="home.rec")

    @classmethod
    def tearDownClass(cls):
        os.chdir(cls.before)
        cls.directory.cleanup()


class Verbs(Case):
    """Python's answers beside the command's."""

    def same(self, answer, *words):
        """Checks that the command prints the same JSON, byte for byte."""
        printed, _ = command(*words, "--json")
        self.assertGreater(len(printed), 10, words)
        self.assertEqual(answer.json, printed, words)

    def test_every_verb_with_json_gives_the_commands_bytes(self):
        tb.sim(DUMBBELL, set=SHORT, output="sim.rec")
        verbs.sim(DUMBBELL, set=SHORT, pcap={"link": "link.pcapng"})
        answers = (f"[{1.4e9 + n:.6f}] 64 bytes from 192.0.2.1: icmp_seq={n} ttl=64 time=2{n % 7}.5 ms" for n in range(50))
        head = "PING 192.0.2.1 (192.0.2.1) 56(84) bytes of data."
        pathlib.Path("ping.txt").write_text("\n".join([head, *answers]), encoding="utf-8")
        shown = {
            "test": (tb.test(link="cable", virtual=True, seed=7, output="t1.rec"),
                     ["test", "--link", "cable", "--virtual", "--seed=7", "-o", "t2.rec"]),
            "probe": (tb.probe("sweep", link=["shdsl"], virtual=True, output="p1.rec"),
                      ["probe", "sweep", "--link", "shdsl", "--virtual", "-o", "p2.rec"]),
            "analyse": (tb.open("home.rec").analyse(), ["analyse", "home.rec"]),
            "compare": (tb.compare("home.rec", "t1.rec"), ["compare", "home.rec", "t1.rec"]),
            "twin": (tb.twin("home.rec"), ["twin", "home.rec"]),
            "whatif": (tb.whatif("home.rec"), ["whatif", "home.rec"]),
            "prove": (tb.prove("home.rec", cure="up.queue=fq_codel", virtual=True, pairs=6, block="5 s"),
                      ["prove", "home.rec", "--cure=up.queue=fq_codel", "--virtual", "--pairs=6", "--block=5 s"]),
            "sim": (tb.sim(DUMBBELL, set=SHORT, seed=3, sweep={"link.queue": ["fifo", "pie"]}, seeds=2),
                    ["sim", DUMBBELL, "--set=duration=2 s", "--set=flow.0.count=2", "--set=seed=3",
                     "--sweep=link.queue=fifo;pie", "--seeds=2"]),
            "model": (tb.model("bdp", "rate=700kbit/s", "rtt=19ms"), ["model", "bdp", "rate=700kbit/s", "rtt=19ms"]),
            "trace": (tb.trace("link.pcapng"), ["trace", "link.pcapng"]),
            "report": (tb.report("home.rec", output="r.html"), ["report", "home.rec", "-o", "r.html"]),
            "run": (tb.run("sim.rec", output="s1.rec"), ["run", "sim.rec", "-o", "s2.rec"]),
            "list_": (tb.list_("links"), ["list", "links"]),
            "export": (tb.export("home.rec", output="e"), ["export", "home.rec", "-o", "e"]),
            "import_": (tb.import_("ping.txt", output="i.rec"), ["import", "ping.txt", "-o", "i.rec"]),
        }
        tb.mark("t1.rec", "upload begins", at="2023-11-14T22:13:30Z")
        shown["mark"] = (tb.mark("t1.rec"), ["mark", "t1.rec"])
        shown["share"] = (tb.share("t1.rec", dry_run=True), ["share", "t1.rec", "--dry-run"])
        with socket.create_server(("127.0.0.1", 0)) as server:
            target = f"tcp:127.0.0.1:{server.getsockname()[1]}"
            tb.monitor(target, interface="lo", interval="50 ms", duration="1 s", output="m.rec")
        shown["status"] = (tb.status("m.rec"), ["status", "m.rec"])
        self.assertEqual([seen.target for seen in shown["status"][0].targets], [target])
        shown["fleet_status"] = (tb.fleet_status(data="hub"), ["fleet", "status", "--data=hub"])
        shown["fleet_log"] = (tb.fleet_log(data="hub"), ["fleet", "log", "--data=hub"])
        shown["control_plan"] = (tb.control_plan(wan="lo"), ["control", "plan", "--wan=lo"])
        # These answers name what they wrote.
        shutil.rmtree("i.rec")
        shutil.rmtree("e")
        for answer, words in shown.values():
            with self.subTest(words=words[0]):
                self.same(answer, *words)
        with_json = {name for name in [*verbs.__all__, "sim"] if "not_json=(" in source(name)}
        missing = with_json - shown.keys() - ELSEWHERE
        self.assertEqual(missing, set())

    def test_statistics_and_windows_are_the_commands(self):
        for options, words in [
            ({"statistics": True}, ["--statistics"]),
            ({"statistics": True, "window": "10s", "limits": [50, 100.5]},
             ["--statistics", "--window=10s", "--limits=50,100.5"]),
            ({"queue": True}, ["--queue"]),
        ]:
            self.same(tb.analyse("home.rec", **options), "analyse", "home.rec", *words)

    def test_text_of_a_verb_without_json_is_the_commands(self):
        for shell in ["bash", "fish"]:
            self.assertEqual(verbs.completions(shell).text, command("completions", shell)[0])


# Verbs that need a controlled gateway with the rights for it, a fleet that has measured, a network of hosts, or a process of their own; the
# command's own tests run them.
ELSEWHERE = {
    "agent", "control_prove", "control_run", "control_status", "control_stop", "emulate", "fleet_report", "fleet_run_now", "hub", "hub_invite", "hub_operator", "hub_reader", "monitor", "neighbours",
    "serve",
}


def source(name):
    """Text of a verb's function."""
    text = pathlib.Path(verbs.__file__).read_text(encoding="utf-8")
    found = re.search(rf"^def {name}\(.*?(?=^def |\Z)", text, re.MULTILINE | re.DOTALL)
    return found.group()


class Errors(Case):
    """Bad input: one tree of errors, each with a hint where there is something to try."""

    def test_bad_input_raises_the_packages_error(self):
        for wrong in [
            lambda: tb.open("missing.rec"),
            lambda: tb.open(__file__),
            lambda: tb.open("home.rec").delay.select("rtt_sn"),
            lambda: tb.open("home.rec").analyse(window=object()),
            lambda: tb.open("home.rec").analyse(window="10 parsecs"),
            lambda: tb.analyse("missing.rec"),
            lambda: tb.sim("missing.toml"),
            lambda: tb.sim(DUMBBELL, set={"link.queue": "codle"}),
            lambda: tb.sim(DUMBBELL, set={"link.queu": "codel"}),
            lambda: tb.model("bpd"),
            lambda: tb.model("bdp", {"rate": None}),
            lambda: tb.report("home.rec", plot="rt"),
            lambda: tb.command(["analyze", "home.rec"]),
            lambda: tb.serve(),
        ]:
            with self.assertRaises(tb.Error) as caught:
                wrong()
            self.assertGreater(len(str(caught.exception)), 20)

    def test_an_unknown_name_has_a_hint(self):
        with self.assertRaises(tb.UsageError) as caught:
            tb.command(["analyse", "home.rec", "--windw=10s"])
        self.assertIn("--window", caught.exception.hint)

    def test_a_damaged_recording_keeps_what_can_be_read_and_says_so(self):
        tb.test(link="adsl", virtual=True, output="damaged.rec")
        file = pathlib.Path(tb.open("damaged.rec").delay.files[0])
        whole = len(tb.open("home.rec").delay)
        content = bytearray(file.read_bytes())
        content[len(content) // 3] ^= 0xFF
        file.write_bytes(content)
        table = tb.open("damaged.rec").delay
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            rows = len(table)
        self.assertLess(rows, whole)
        self.assertTrue(any(w.category is tb.DamageWarning for w in told))

    def test_an_unknown_figure_is_none_and_never_a_number(self):
        unknown = tb.Figure(None, why="no load")
        self.assertIsNone(unknown.value)
        with self.assertRaises(tb.UnknownError):
            float(unknown)


class Answers(Case):
    """Answers as attributes, tables as capsules."""

    def test_figures_are_values_with_intervals(self):
        plain = json.loads(self.home.json)
        self.assertEqual(self.home.base_rtt_ms.value, plain["base_rtt_ms"]["value"])
        self.assertEqual(self.home["base_rtt_ms"], self.home.base_rtt_ms)
        self.assertLessEqual(self.home.base_rtt_ms.low, float(self.home.base_rtt_ms))
        self.assertIn("<table>", self.home._repr_html_())

    def test_a_recording_shows_its_plot(self):
        rec = tb.open("home.rec")
        self.assertIn("<svg", rec._repr_html_())
        self.assertIn("<svg", rec.plot("cdf")._repr_svg_())
        self.assertIn("delay", repr(rec))

    def test_a_plot_tells_its_axes_and_a_widget_needs_anywidget(self):
        rec = tb.open("home.rec")
        axes = json.loads(html.unescape(re.search(r'data-axes="([^"]*)"', rec.plot("rtt").svg)[1]))
        self.assertEqual(int(axes["x"]["origin_ns"]), self.home.started_ns)
        self.assertAlmostEqual(axes["x"]["to"], self.home.duration_s, delta=5)
        self.assertIn("Round-trip time, ms", [panel["y"]["name"] for panel in axes["panels"]])
        if importlib.util.find_spec("anywidget") is None:
            self.assertEqual(rec.explore("cdf").svg, rec.plot("cdf").svg)
            return
        widget = rec.explore("rtt")
        begin = self.home.started_ns + 10_000_000_123
        widget.span = [str(begin), str(begin + 5_000_000_000)]
        axes = json.loads(html.unescape(re.search(r'data-axes="([^"]*)"', widget.svg)[1]))
        self.assertEqual(int(axes["x"]["origin_ns"]), begin)
        self.assertEqual(axes["x"]["to"], 5)
        before = widget.svg
        widget.span = ["0", "1"]
        self.assertEqual(widget.svg, before)
        self.assertIn("no probes", widget.trouble)
        widget.span = []
        self.assertEqual((widget.svg, widget.trouble), (rec.plot("rtt").svg, ""))

    def test_streams_start_anew_and_end_with_their_consumer(self):
        delay = tb.open("home.rec").delay
        self.assertGreater(len(delay), 100)
        before = threading.active_count()
        for _ in range(200):
            capsule = delay.__arrow_c_stream__()
            self.assertIn("arrow_array_stream", repr(capsule))
            self.assertIn("arrow_schema", repr(delay.__arrow_c_schema__()))
            del capsule
        gc.collect()
        deadline = time.monotonic() + 10
        while threads() > before + 8 and time.monotonic() < deadline:
            time.sleep(0.01)
        self.assertLessEqual(threads(), before + 8)

    def test_a_simulation_has_its_tables(self):
        run = tb.sim(DUMBBELL, set=SHORT, seed=5)
        again = tb.sim(DUMBBELL, set=SHORT, seed=5, output="kept.rec")
        self.assertEqual(run.json, again.json)
        self.assertGreater(len(run.queue), 10)
        self.assertEqual(len(run.queue), len(again.queue))


def threads():
    """Number of the process's threads."""
    return len(os.listdir("/proc/self/task"))


class Worker:
    """Task of a client of dask.distributed, made at once."""

    def __init__(self, made):
        self.made = made

    def result(self):
        return self.made


class Client:
    """Client of dask.distributed as far as a sweep knows it."""

    def nthreads(self):
        return {"a": 1}

    def submit(self, of, *arguments, pure):
        return Worker(of(*arguments))


class Sweeps(Case):
    """Sweeps over values and seeds."""

    VALUES = {"link.queue": ["fifo:packets=1000", "pie"], "seed": range(4, 7)}

    def test_a_sweep_is_the_commands_and_its_runs_are_kept(self):
        swept = tb.sweep(self.VALUES, DUMBBELL, set=SHORT, keep="runs")
        printed, _ = command(
            "sim", DUMBBELL, "--set=duration=2 s", "--set=flow.0.count=2", "--set=seed=4", "--seeds=3",
            "--sweep=link.queue=fifo:packets=1000;pie", "--json"
        )
        self.assertEqual(swept.json, printed)
        self.assertEqual(len(os.listdir("runs")), 6)
        self.assertEqual(tb.sweep(self.VALUES, DUMBBELL, set=SHORT, keep="runs").json, printed)
        spread = tb.sweep(self.VALUES, DUMBBELL, set=SHORT, keep="spread", on=Client())
        self.assertEqual(spread.json, printed)
        self.assertEqual(files("spread"), files("runs"))

    def test_rows_and_paired_differences(self):
        swept = tb.sweep(self.VALUES, DUMBBELL, set=SHORT)
        self.assertEqual([row["seed"] for row in swept.rows], [4, 5, 6, 4, 5, 6])
        name = "bulk.goodput_bps"
        [difference] = swept.differences(name)
        each = [b[name] - a[name] for a, b in zip(swept.rows[:3], swept.rows[3:])]
        self.assertEqual(difference.values, {"link.queue": "pie"})
        self.assertAlmostEqual(difference.figure.value, sum(each) / 3, delta=1e-6 * abs(sum(each)) + 1e-6)
        self.assertLessEqual(difference.figure.low, difference.figure.value)
        self.assertIn("arrow_array_stream", repr(swept.__arrow_c_stream__()))
        with self.assertRaises(tb.UsageError):
            swept.differences("bulk.godput_bps")
        with self.assertRaises(tb.UsageError):
            tb.sweep({"seed": [1, 3]}, DUMBBELL)


class Tail(tb.Qdisc):
    """First in, first out, up to a number of packets."""

    limit: int = 1000

    def __init__(self):
        self.waiting = collections.deque()

    def enqueue(self, now, packet):
        if len(self.waiting) >= self.limit:
            return self.drop(packet, "overlimit")
        self.waiting.append(packet)

    def dequeue(self, now):
        return self.waiting.popleft() if self.waiting else None


class Lossy(Tail):
    """Drops or marks one packet of ten at random."""

    def enqueue(self, now, packet):
        if self.random.random() < 0.1:
            if not packet.ecn_capable:
                return self.drop(packet)
            self.mark(packet)
        super().enqueue(now, packet)


class Halving(tb.Controller):
    """One segment more for each window, half of it after a loss."""

    gain: float = 1.0

    def on_ack(self, now, ack):
        if ack["cwnd_limited"] and not ack["in_recovery"]:
            self.cwnd += self.gain * self.mss * ack["newly_acked"] / self.cwnd

    def on_congestion(self, now, event, flight):
        self.cwnd = max(self.cwnd / 2, 2 * self.mss)


class Bursts(tb.Source):
    """Transfers of one size, with random pauses."""

    size: int = 20_000

    def next_transfer(self, now):
        return round(self.random.expovariate(20) * 1e9), self.size


class PlugIns(Case):
    """Disciplines, controllers and sources of one's own."""

    def test_a_discipline_in_python_is_the_built_in_one_packet_for_packet(self):
        for limit in [5, 37]:
            ours, theirs = (
                json.loads(tb.sim(DUMBBELL, set={**SHORT, "link.queue": queue}, seed=limit).json)[0]["runs"]
                for queue in [f"tail:limit={limit}", f"fifo:packets={limit}"]
            )
            self.assertGreater(ours[0]["links"][0]["drops"], 0)
            # An early estimate of its departures spares the built-in one some events.
            self.assertEqual([{**run, "events": 0} for run in ours], [{**run, "events": 0} for run in theirs])

    def test_a_seed_repeats_a_run_of_all_three(self):
        given = {**SHORT, "link.queue": "lossy", "flow.0.tcp.controller": "halving:gain=2", "tcp.ecn": True}
        once = tb.sim(DUMBBELL, set=given, seeds=3)
        self.assertEqual(once.json, tb.sim(DUMBBELL, set=given, seeds=3, threads=1).json)
        self.assertNotEqual(once.json, tb.sim(DUMBBELL, set=given, seeds=3, seed=2).json)
        scenario = 'duration = "5 s"\n[link]\nrate = "5 Mbit/s"\n[[flow]]\nkind = "bursts"\nsize = 9000\n'
        pathlib.Path("bursts.toml").write_text(scenario, encoding="utf-8")
        run = json.loads(tb.sim("bursts.toml").json)[0]["runs"][0]
        self.assertGreater(run["flows"][0]["completed"], 20)
        self.assertLess(run["flows"][0]["completed"], 120)

    def test_the_contract_holds_for_sound_disciplines_and_is_seen_broken(self):
        tb.testing.check_qdisc(Tail)
        tb.testing.check_qdisc("lossy:limit=3")
        tb.testing.check_qdisc("codel")

        class Forgets(Tail):
            def enqueue(self, now, packet):
                if len(self.waiting) < 3:
                    self.waiting.append(packet)

        class Invents(Tail):
            def dequeue(self, now):
                return self.waiting[0] if self.waiting else None

        class Reorders(Tail):
            def dequeue(self, now):
                return self.waiting.pop() if self.waiting else None

        class MarksAll(Tail):
            def enqueue(self, now, packet):
                self.mark(packet)
                super().enqueue(now, packet)

        class DrawsElsewhere(Tail):
            def enqueue(self, now, packet):
                return self.drop(packet) if os.urandom(1)[0] < 99 else super().enqueue(now, packet)

        for wrong in [Forgets, Invents, Reorders, MarksAll, DrawsElsewhere]:
            with self.subTest(wrong=wrong.__name__), self.assertRaises(tb.Error):
                tb.testing.check_qdisc(wrong)

    def test_an_exception_ends_the_run_with_its_traceback(self):
        class Raises(Tail):
            def dequeue(self, now):
                return 1 / 0 if now > 1e9 else super().dequeue(now)

        for options in [{}, {"output": "raises.rec"}, {"seeds": 2}]:
            try:
                tb.sim(DUMBBELL, set={**SHORT, "link.queue": Raises.name}, **options)
            except ZeroDivisionError as e:
                self.assertIn("in dequeue", traceback.format_tb(e.__traceback__)[-1])
            else:
                self.fail("the exception was lost")

    def test_wrong_names_parameters_and_kept_runs_are_refused(self):
        with self.assertRaises(tb.UsageError):
            type("Fifo", (Tail,), {})
        for queue in ["tial", "tail:limt=3", "tail:limit=many"]:
            with self.assertRaises(tb.UsageError):
                tb.sim(DUMBBELL, set={**SHORT, "link.queue": queue})
        with self.assertRaises(tb.UsageError) as caught:
            tb.sweep({"link.queue": ["fifo", "tail"]}, DUMBBELL, set=SHORT, keep="own")
        self.assertIn("tail", str(caught.exception))


def files(directory):
    """Names and contents of a directory's files."""
    return {entry.name: pathlib.Path(entry.path).read_bytes() for entry in os.scandir(directory)}


class LongCalls(Case):
    """Calls that take long."""

    def test_ctrl_c_ends_a_call_soon(self):
        # A process that a shell starts in the background ignores Ctrl-C.
        before = signal.signal(signal.SIGINT, signal.default_int_handler)
        self.addCleanup(signal.signal, signal.SIGINT, before)
        pressed = []

        def press():
            pressed.append(time.monotonic())
            os.kill(os.getpid(), signal.SIGINT)

        timer = threading.Timer(0.5, press)
        timer.start()
        with self.assertRaises(KeyboardInterrupt):
            tb.sim(DUMBBELL, set={"duration": "20000 s"})
        ended = time.monotonic()
        timer.join()
        # The call looks every 50 ms and waits at most 80 ms; a busy machine takes longer.
        self.assertLess(ended - pressed[0], 5)

    def test_progress_is_called_and_its_errors_end_the_call(self):
        shares = []

        def show(share, text):
            shares.append(share)
            if len(shares) == 3:
                raise ZeroDivisionError

        with self.assertRaises(ZeroDivisionError):
            tb.sim(DUMBBELL, set={"duration": "20000 s"}, progress=show)
        self.assertEqual(shares, sorted(shares))

    def test_other_threads_run_meanwhile(self):
        counted = []
        stop = threading.Event()

        def count():
            while not stop.wait(0.001):
                counted.append(1)

        other = threading.Thread(target=count)
        other.start()
        tb.sim(DUMBBELL, set={"duration": "5 s"})
        stop.set()
        other.join()
        self.assertGreater(len(counted), 5)


def load_tests(loader, tests, pattern):
    """Adds the examples of the package's docstring."""
    tests.addTests(doctest.DocTestSuite(tb))
    return tests


if __name__ == "__main__":
    unittest.main()
