#!/usr/bin/env python3
"""`tailback trace` beside what others say of the same captures.

    bench/trace_truth.py FOLDER

FOLDER holds `trace-cases.csv` and the captures it names: with tcptrace's counts (`tt_*`), and for some the cause of each
retransmission as the TCPRS tool labels it (`label_*`). Prints what differs, and of the labels how many captures have as
many retransmissions, and how many time-outs and fast retransmissions agree. `captures/own-gt_cubic_{snd,rcv}.pcap.gz`, if
they are there, are compared as two ends of a path.
"""
import argparse
import csv
import json
import pathlib
import subprocess

ROOT = pathlib.Path(__file__).resolve().parent.parent
OURS = {
    "data_pkts": "data_packets",
    "unique_bytes": "unique_bytes",
    "rexmt_pkts": "retransmitted_packets",
    "rexmt_bytes": "retransmitted_bytes",
    "ooo": "out_of_order",
    "rtt_n": "rtt_samples",
}

# Segments lost and repaired in the four flows of that pair. The sender's kernel counted 29, 37 and 35 segments sent again; in
# the second flow both captures show one loss and its repair more.
PAIR = [(0, 0), (29, 29), (35, 35), (38, 38)]


def two_ends(tailback, captures):
    """Compares the losses between two ends with those that the kernel repaired."""
    snd, rcv = (captures / f"own-gt_cubic_{end}.pcap.gz" for end in ("snd", "rcv"))
    if not snd.exists():
        return
    said = subprocess.run([tailback, "trace", "--json", str(snd), "--far", str(rcv)], capture_output=True, check=True).stdout
    said = json.loads(said)
    flows = sorted((f["up"]["lost"], f["up"]["repeated_after_loss"]) for f in said["flows"])
    same = flows == PAIR and said["down"]["lost"] == 0 and said["up"]["not_captured"] == 0
    print(f"two ends: lost and repaired by flow {flows}: {'as the kernel counted' if same else f'the kernel: {PAIR}'}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("--tailback", default=str(ROOT / "target/release/tailback"))
    args = parser.parse_args()
    same_counters = compared = same_total = labelled = 0
    named = {"rto": [0, 0, 0], "fast": [0, 0, 0]}
    for row in csv.DictReader(open(args.folder / "trace-cases.csv")):
        file = args.folder / row["file"]
        if not file.exists():
            continue
        said = subprocess.run([args.tailback, "trace", "--json", str(file)], capture_output=True, check=True).stdout
        directions = [d for c in json.loads(said)["connections"] for d in c["directions"]]
        name = file.name
        if row["tt_data_pkts"]:
            differ = []
            for theirs, ours in OURS.items():
                them, us = int(row["tt_" + theirs] or 0), sum(d[ours] for d in directions)
                if them != us:
                    differ.append(f"{ours} {us}, tcptrace {them}")
            compared += 1
            same_counters += not differ
            if differ:
                print(f"{name}: {'; '.join(differ)}")
        if row["label_total"]:
            causes = {}
            for d in directions:
                for cause, n in d["retransmissions"]:
                    causes[cause] = causes.get(cause, 0) + n
            total = sum(causes.values())
            labelled += 1
            same_total += total == int(row["label_total"])
            if total != int(row["label_total"]):
                print(f"{name}: {total} retransmissions, labelled {row['label_total']}")
            for label, cause in (("rto", "timeout"), ("fast", "fast")):
                them, us = int(row["label_" + label] or 0), causes.get(cause, 0)
                named[label][0] += min(them, us)
                named[label][1] += them
                named[label][2] += us
                if them != us:
                    print(f"{name}: {us} {cause}, labelled {them}")
    print()
    two_ends(args.tailback, args.folder / "captures")
    print(f"all six of tcptrace's counters equal on {same_counters} of {compared} captures")
    print(f"as many retransmissions as labelled on {same_total} of {labelled} captures")
    for label, (both, them, us) in named.items():
        print(f"{label}: {them} labelled, {us} found, {both} in both ({100 * both / max(them, 1):.1f} %)")


if __name__ == "__main__":
    main()
