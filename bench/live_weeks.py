#!/usr/bin/env python3
"""How fast the page of `tailback monitor --web` opens and moves after three weeks at ten probes a second.

A monitor of this host continues a recording whose first three weeks are those of bench/weeks.py, until yesterday. Usage:
live_weeks.py DIRECTORY TAILBACK [RUNS]
"""
import json
import pathlib
import shutil
import subprocess
import sys
import time
import urllib.request

BENCH = pathlib.Path(__file__).resolve().parent


def monitor(tailback, *more):
    targets = ["127.0.0.1:8119", "--title", "Three weeks", "--quiet", "--output", "live.rec"]
    return [tailback, "monitor", *targets, *more]


def main():
    out, tailback = pathlib.Path(sys.argv[1]), str(pathlib.Path(sys.argv[2]).resolve())
    out.mkdir(parents=True, exist_ok=True)
    subprocess.run([sys.executable, BENCH / "weeks.py", out, "10", "yesterday"], check=True)
    files = ["delay.csv", "dropped.csv", "traffic.csv"]
    shutil.rmtree(out / "weeks.rec", ignore_errors=True)
    shutil.rmtree(out / "live.rec", ignore_errors=True)
    subprocess.run([tailback, "import", *files, "--output", "weeks.rec", "--zone", "UTC"], cwd=out, check=True)
    server = subprocess.Popen([tailback, "serve", "--listen", "127.0.0.1:8119", "--quiet"], stderr=subprocess.DEVNULL)
    web = None
    try:
        time.sleep(1)
        subprocess.run(monitor(tailback, "--duration", "2s"), cwd=out, check=True)
        for table in ("delay", "traffic"):
            # Numbers of probes have no gaps: those of the two seconds would make all weeks between one.
            shutil.rmtree(out / "live.rec" / table)
            shutil.copytree(out / "weeks.rec" / table, out / "live.rec" / table)
        web = subprocess.Popen(monitor(tailback, "--web", "127.0.0.1:8120"), cwd=out, stderr=subprocess.DEVNULL)
        site = "http://127.0.0.1:8120/"
        began = time.monotonic()
        while True:
            time.sleep(0.5)
            try:
                urllib.request.urlopen(site).read()
                if json.load(urllib.request.urlopen(site + "live.json"))["page"]:
                    break
            except OSError:
                pass
        print(f"the first page was there {time.monotonic() - began:.1f} s after the monitor started")
        print(f"{len(urllib.request.urlopen(site).read()) / 1e6:.2f} MB")
        subprocess.run(["node", BENCH / "page_speed.mjs", site, *sys.argv[3:]], check=True)
        to = int(time.time() * 1000) - 10 * 86_400_000
        began = time.monotonic()
        while True:
            found = json.load(urllib.request.urlopen(f"{site}probes/{to - 600_000}/{to}"))
            if found:
                break
            time.sleep(0.05)
        print(f"{len(found['probes']['t_s'])} single probes in {time.monotonic() - began:.2f} s")
    finally:
        for process in (web, server):
            if process:
                process.terminate()
                process.wait()


main()
