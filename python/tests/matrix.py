"""Consumers of Arrow beside each other: each reads the same table, and has the same rows and nulls.

Usage: matrix.py, in an environment with `tailback` and the consumers; a consumer that is not installed fails.
"""

import importlib.metadata
import os
import pathlib
import sys
import tempfile
import warnings

import tailback as tb

COLUMNS = ("sent_ns", "target", "rtt_ns", "owd_up_ns")


class Counted:
    """Table that counts the streams and schemas that a consumer takes."""

    def __init__(self, table):
        self.table = table
        self.streams = 0
        self.schemas = 0

    def __arrow_c_stream__(self, requested_schema=None):
        self.streams += 1
        return self.table.__arrow_c_stream__(requested_schema)

    def __arrow_c_schema__(self):
        self.schemas += 1
        return self.table.__arrow_c_schema__()


def pyarrow(x):
    import pyarrow as pa

    t = pa.table(x)
    return t.num_rows, t["rtt_ns"].null_count, pa.compute.sum(t["rtt_ns"]).as_py()


def polars(x):
    import polars as pl

    d = pl.DataFrame(x)
    return d.height, d["rtt_ns"].null_count(), d["rtt_ns"].sum()


def pandas(x):
    d = (x.table if isinstance(x, Counted) else x).to_pandas()
    return len(d), int(d["rtt_ns"].isna().sum()), int(d["rtt_ns"].sum())


def duckdb(x):
    import duckdb

    ask = "select count(*), count(*) - count(rtt_ns), sum(rtt_ns)::bigint from x"
    first, again = duckdb.sql(ask).fetchall()[0], duckdb.sql(ask).fetchall()[0]
    assert first == again, "a second query of the same object"
    joined = duckdb.sql("select count(*) from x a join x b using (sent_ns)").fetchall()[0][0]
    assert joined >= first[0], joined
    return first


def narwhals(x):
    import narwhals as nw
    import polars as pl

    d = nw.from_arrow(x, backend=pl)
    return d.shape[0], d["rtt_ns"].null_count(), d["rtt_ns"].sum()


def nanoarrow(x):
    import nanoarrow as na

    values = na.ArrayStream(x).read_all()
    rtts = [row["rtt_ns"] for row in values.to_pylist()]
    known = [rtt for rtt in rtts if rtt is not None]
    return len(rtts), len(rtts) - len(known), sum(known)


def damage_is_told():
    """Checks that a consumer's call warns of a damaged file, and gives the rows that can be read."""
    whole = len(tb.open("home.rec").delay)
    file = pathlib.Path(tb.open("home.rec").delay.files[0])
    content = bytearray(file.read_bytes())
    content[len(content) // 3] ^= 0xFF
    file.write_bytes(content)
    for read in (tb.Table.to_polars, tb.Table.to_arrow, tb.Table.to_pandas):
        with warnings.catch_warnings(record=True) as told:
            warnings.simplefilter("always")
            rows = len(read(tb.open("home.rec").delay))
        assert any(w.category is tb.DamageWarning for w in told), read
        assert rows < whole, read


def main():
    """Prints a line for each consumer; returns the number of those that failed."""
    failed = 0
    with tempfile.TemporaryDirectory() as directory:
        os.chdir(directory)
        tb.test(link="adsl", virtual=True, output="home.rec")
        table = tb.open("home.rec").delay.select(*COLUMNS)
        expected = None
        for consumer in (pyarrow, polars, pandas, duckdb, narwhals, nanoarrow):
            counted = Counted(table)
            try:
                found = tuple(int(value) for value in consumer(counted))
                expected = expected or found
                assert found == expected, f"{found}, not {expected}"
                told = f"ok: {found}, {counted.streams} streams, {counted.schemas} schemas"
            except Exception as e:  # noqa: BLE001  # Each consumer has errors of its own.
                failed += 1
                told = f"FAILED: {type(e).__name__}: {e}"
            name = consumer.__name__
            try:
                version = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                version = "not installed"
            print(f"{name:10} {version:12} {told}")
        damage_is_told()
    return failed


if __name__ == "__main__":
    sys.exit(main())
