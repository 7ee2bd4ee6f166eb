#!/usr/bin/env python3
"""The same questions to the recordings of a hub in DuckDB (and chDB, if it is installed) and to the tables of a ClickHouse server: equal answers?

Usage: python3 bench/engines.py HUB http://HOST:PORT/DATABASE

HUB is the directory of a hub that runs, or ran, with `--clickhouse` of the same address. DuckDB and chDB come from PyPI. Prints each
question's answer and the seconds of each engine, and exits with 1 if two answers differ. Quantiles are exact, by rank: the value at
place floor(p (n - 1)) of the sorted ones, from 0, in all engines.
"""
import argparse
import pathlib
import sys
import time
import urllib.parse
import urllib.request

import duckdb

try:
    import chdb
except ImportError:
    chdb = None

# Rows stand in order. {delay} and so on are the tables; {p(x, share)} a quantile by rank; {hour(x)} the hour of a time in ns.
QUESTIONS = {
    "probes, losses and round trips of each point": """
        select point, count(*), sum(case when status = 'lost' then 1 else 0 end), min(rtt_ns), {p50}, {p95}, max(rtt_ns), sum(rtt_ns)
        from {delay} where status <> 'not_sent' group by point order by point""",
    "worst hours": """
        select point, {hour}, count(*), {p95} from {delay} where rtt_ns is not null group by point, {hour}
        order by {p95} desc, point, {hour} limit 5""",
    "targets": "select target, count(*), {p50} from {delay} group by target order by target",
    "bytes of each interface": """
        select interface, count(*), max(rx_bytes), sum(tx_bytes) from {traffic} group by interface order by interface""",
    "events": "select kind, count(*) from {event} group by kind order by kind",
    "recordings of each point": "select point, count(distinct recording) from {delay} group by point order by point",
}
TABLES = ["delay", "traffic", "event"]


def tables(hub):
    """Path of each table's files, for engines that read Parquet."""
    return {t: f"{hub}/points/*/*/{t}/*.parquet" for t in TABLES}


def in_duckdb(hub):
    db = duckdb.connect()
    for name, files in tables(hub).items():
        if any(pathlib.Path(hub).glob(f"points/*/*/{name}/*.parquet")):
            db.execute(f"""create view {name} as select *, split_part(filename, '/', -4) as point, split_part(filename, '/', -3) as recording
                from read_parquet('{files}', filename = true, union_by_name = true)""")
    rank = "list_sort(list(rtt_ns) filter (where rtt_ns is not null))[1 + floor({} * (count(rtt_ns) - 1))::bigint]"
    words = {t: t for t in TABLES} | {"p50": rank.format(0.5), "p95": rank.format(0.95), "hour": "sent_ns // 3600000000000"}
    return words, lambda sql: [tuple(row) for row in db.execute(sql).fetchall()]


def clickhouse_words(place):
    rank = "arrayElement(arraySort(groupArray(rtt_ns)), 1 + toInt64(floor({} * (count(rtt_ns) - 1))))"
    return {t: place(t) for t in TABLES} | {"p50": rank.format(0.5), "p95": rank.format(0.95), "hour": "intDiv(sent_ns, 3600000000000)"}


def rows(text):
    def value(cell):
        return None if cell == "\\N" else int(cell) if cell.lstrip("-").isdigit() else cell
    return [tuple(value(cell) for cell in line.split("\t")) for line in text.splitlines()]


def in_clickhouse(address):
    url = urllib.parse.urlsplit(address)
    def ask(sql):
        request = urllib.request.Request(f"http://{url.netloc}/", (sql + " format TabSeparated").encode())
        return rows(urllib.request.urlopen(request).read().decode())
    return clickhouse_words(lambda t: f"{url.path.strip('/') or 'tailback'}.{t}"), ask


def in_chdb(hub):
    def place(table):
        files = tables(hub)[table]
        return f"(select *, splitByChar('/', _path)[-4] as point, splitByChar('/', _path)[-3] as recording from file('{files}', Parquet))"
    return clickhouse_words(place), lambda sql: rows(str(chdb.query(sql, "TabSeparated")))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("hub")
    parser.add_argument("clickhouse")
    given = parser.parse_args()
    hub = str(pathlib.Path(given.hub).resolve())
    engines = {"DuckDB": in_duckdb(hub), "ClickHouse": in_clickhouse(given.clickhouse)}
    if chdb:
        engines["chDB"] = in_chdb(hub)
    differ = 0
    for question, sql in QUESTIONS.items():
        answers = {}
        for engine, (words, ask) in engines.items():
            began = time.monotonic()
            answers[engine] = ask(sql.format(**words))
            print(f"{question}: {engine} {len(answers[engine])} rows, {time.monotonic() - began:.2f} s")
        first = answers["DuckDB"]
        print("   ", *first[:2], "…" if len(first) > 2 else "")
        for engine, answer in answers.items():
            if answer != first:
                differ += 1
                print(f"    {engine} says", *answer[:3])
    print("equal on", ", ".join(engines) if not differ else f"{differ} answers differ")
    sys.exit(1 if differ else 0)


main()
