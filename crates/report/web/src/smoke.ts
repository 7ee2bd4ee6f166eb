// Smoke that can be zoomed: the page holds the counts of each cell of time, and whatever is looked at is added up from
// them anew, so that a percentile over a month and one over an hour are both that of the probes.
import uPlot from "uplot";
import type { PageMoment, Smoke } from "./schema";
import { digits, element } from "./dom";
import { Plots, axis, colour, dates, hint, live, logarithmic, movable, toggle, drawMoments, momentAt } from "./plot";

/** All cells, one after another: those of cell `i` from `begin[i]` to `begin[i + 1]`. */
export interface Cells {
  begin: Uint32Array;
  step: Uint16Array;
  count: Uint32Array;
  lost: Uint32Array;
  sent: Float64Array;
  steps: number;
}

/** What is drawn of some cells. */
export interface Drawn {
  from: number;
  to: number;
  sent: number;
  lost: number;
  /** ms, at each of `SHARES`; none where nothing came back. */
  at: number[] | null;
}

/** Nested areas from these shares to one less each, as in the picture of the page without script; then what is read. */
const PUFFS = [0, 0.01, 0.05, 0.1, 0.2, 0.3, 0.4, 0.45];
const SHARES = [...PUFFS, ...PUFFS.map((p) => 1 - p), 0.5, 0.95, 0.99, 1];
const MEDIAN = 2 * PUFFS.length;
/** Places of the smallest, 5 %, median, 95 % and largest among `SHARES`. */
export const BOUNDS = { min: 0, low: 2, median: MEDIAN, high: PUFFS.length + 2, max: PUFFS.length };
const COLUMNS = 400;

export function decode(s: Smoke): Cells {
  const bytes = atob(s.data);
  let at = 0;
  const next = (): number => {
    let value = 0;
    let weight = 1;
    for (;;) {
      const byte = bytes.charCodeAt(at++);
      value += (byte & 0x7f) * weight;
      if (byte < 0x80) return value;
      weight *= 128;
    }
  };
  const begin = new Uint32Array(s.cells + 1);
  const lost = new Uint32Array(s.cells);
  const sent = new Float64Array(s.cells);
  const step: number[] = [];
  const count: number[] = [];
  let steps = 0;
  for (let i = 0; i < s.cells; i++) {
    sent[i] = lost[i] = next();
    let place = 0;
    for (let filled = next(); filled > 0; filled--) {
      place += next();
      const n = next();
      step.push(place++);
      count.push(n);
      sent[i]! += n;
    }
    steps = Math.max(steps, place);
    begin[i + 1] = step.length;
  }
  return { begin, step: Uint16Array.from(step), count: Uint32Array.from(count), lost, sent, steps };
}

/** Middle of a step in µs: steps are linear within each octave (`Sketch::steps` in `base/src/sketch.rs`). */
function middleOf(step: number, perOctave: number): number {
  const octave = Math.max(0, Math.floor(step / perOctave) - 1);
  return (step - octave * perOctave) * 2 ** octave + Math.floor(2 ** octave / 2);
}

/** Adds the cells from `from` to `to` up. */
export function add(c: Cells, octave: number, from: number, to: number): Drawn {
  const counts = new Float64Array(c.steps);
  const drawn: Drawn = { from, to, sent: 0, lost: 0, at: null };
  for (let i = from; i < to; i++) {
    drawn.lost += c.lost[i] as number;
    drawn.sent += c.sent[i] as number;
  }
  for (let k = c.begin[from] as number; k < (c.begin[to] as number); k++) counts[c.step[k] as number]! += c.count[k] as number;
  const answered = drawn.sent - drawn.lost;
  if (answered <= 0) return drawn;
  const upTo = counts.slice();
  for (let step = 1; step < c.steps; step++) upTo[step]! += upTo[step - 1] as number;
  // Linear between order statistics, as in the static picture (`base/src/sketch.rs`).
  const order = (k: number): number => {
    let [low, high] = [0, c.steps - 1];
    while (low < high) {
      const middle = (low + high) >> 1;
      if ((upTo[middle] as number) > k) high = middle;
      else low = middle + 1;
    }
    return middleOf(low, octave) / 1e3;
  };
  const found = SHARES.map((p) => {
    const at = p * (answered - 1);
    const [below, share] = [Math.floor(at), at - Math.floor(at)];
    return share > 0 ? order(below) * (1 - share) + order(below + 1) * share : order(below);
  });
  drawn.at = found;
  return drawn;
}

/** Time without a probe that interrupts a drawing, in usual intervals between two. */
const GAP = 5;

/** Cells at which probing begins and ends, in turn: the same rule as `probed` in `report/src/plots/material.rs`. */
export function edges(c: Cells, s: Smoke): number[] {
  const filled: number[] = [];
  c.sent.forEach((n, i) => n > 0 && filled.push(i));
  const middle = (values: number[]): number => values.sort((a, b) => a - b)[Math.floor(values.length / 2)] ?? 1;
  const apart = middle(filled.slice(1).map((i, k) => i - filled[k]!));
  const each = middle(filled.map((i) => c.sent[i]!));
  // An interval of which only the sum is known lies at its middle.
  const around = s.least > 1 ? s.least / 2 : 0;
  const longest = Math.max((GAP * apart) / each, 2 * around);
  const found: number[] = [];
  for (const i of filled) {
    if (found.length > 0 && i - found.at(-1)! <= longest) found[found.length - 1] = i + 1;
    else found.push(i, i + 1);
  }
  return found.map((at, k) => Math.round(Math.min(s.cells, Math.max(0, k % 2 === 0 ? at - around : at + around))));
}

/**
 * Columns of what lies between two cells: at most about `COLUMNS`, each of some twenty probes where there are as many. A
 * column ends where probing ends, so that none shows delays of time without probes.
 */
export function columns(c: Cells, s: Smoke, ends: number[], from: number, to: number): Drawn[] {
  let width = Math.max(s.least, Math.ceil((to - from) / COLUMNS));
  let [sent, filled] = [0, 0];
  for (let i = from; i < to; i++) {
    sent += c.sent[i] as number;
    filled += Number((c.sent[i] as number) > 0);
  }
  while ((sent / Math.max(1, filled)) * width < 20 && width * 20 < to - from) width *= 2;
  const first = Math.floor(from / width) * width;
  const last = Math.min(s.cells, Math.ceil(to / width) * width);
  const cuts = [...ends.filter((at) => at > first && at < last), last];
  for (let at = first; at < last; at += width) cuts.push(at);
  cuts.sort((a, b) => a - b);
  return cuts.slice(1).flatMap((end, i) => (end > cuts[i]! ? [add(c, s.steps_per_octave, cuts[i]!, end)] : []));
}

export function smoke(figure: HTMLElement, s: Smoke, begin: number, span: number, zone: string | undefined, moments: PageMoment[]): void {
  const strokes = s.losses.map((_, i) => getComputedStyle(figure.querySelector(`.static .med.l${i}`) ?? figure).stroke);
  const names = s.losses.map((upTo, i) => (i === 0 ? `<${upTo * 100}` : upTo > 0.999 && upTo < 1 ? "<100" : String(Math.round(upTo * 100))));
  const box = live(figure);
  const cells = decode(s);
  const ends = edges(cells, s);
  const length = span / s.cells;
  const end = begin + span;
  const zoned = (t: number): Date => (zone ? uPlot.tzDate(new Date(t * 1e3), zone) : new Date(t * 1e3));
  const show = { p99: true, log: false };
  let range: [number, number] = [begin, end];
  let drawn: Drawn[] = [];
  let top = 1;
  let bottom = 1;

  const tools = element("div", "tools");
  const area = element("div", "plot");
  const readout = element("p", "readout");
  readout.setAttribute("aria-live", "polite");

  const bin = (): uPlot.AlignedData => {
    const cell = (t: number): number => (t - begin) / length;
    drawn = columns(cells, s, ends, Math.max(0, Math.floor(cell(range[0]) + 1e-6)), Math.min(s.cells, Math.ceil(cell(range[1]) - 1e-6)));
    const tails = drawn.flatMap((d) => (d.at ? [d.at[MEDIAN + 2] as number] : [])).sort((a, b) => a - b);
    top = (tails[Math.ceil(tails.length * 0.98) - 1] ?? 1) * 1.1;
    bottom = Math.min(...drawn.flatMap((d) => (d.at ? [d.at[0] as number] : [])), top) * 0.9;
    return [drawn.map((d) => begin + ((d.from + d.to) / 2) * length), drawn.map((d) => d.at?.[MEDIAN + 2] ?? null)];
  };

  const puffs = (u: uPlot): void => {
    const { ctx, bbox } = u;
    const x = (cell: number): number => u.valToPos(begin + cell * length, "x", true);
    const y = (ms: number): number => u.valToPos(Math.max(ms, show.log ? bottom / 2 : 0), "y", true);
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    ctx.fillStyle = colour("ink");
    ctx.globalAlpha = 0.11;
    // Stretches without a gap, each as one area: from column to column, and to the outer edges of the first and the last.
    const runs: Drawn[][] = [];
    drawn.forEach((d, i) => {
      if (!d.at) return;
      if (i > 0 && drawn[i - 1]!.at) runs.at(-1)!.push(d);
      else runs.push([d]);
    });
    for (const run of runs) {
      const middles = run.map((d) => x((d.from + d.to) / 2));
      const xs = [x(run[0]!.from), ...middles, x(run.at(-1)!.to)];
      const padded = [run[0]!, ...run, run.at(-1)!];
      PUFFS.forEach((_, p) => {
        ctx.beginPath();
        padded.forEach((d, i) => ctx.lineTo(xs[i] as number, y(d.at![p + PUFFS.length] as number)));
        for (let i = padded.length - 1; i >= 0; i--) ctx.lineTo(xs[i] as number, y(padded[i]!.at![p] as number));
        ctx.fill();
      });
    }
    ctx.globalAlpha = 1;
    ctx.lineWidth = 3 * devicePixelRatio;
    s.losses.forEach((_, i) => {
      ctx.strokeStyle = strokes[i] as string;
      ctx.beginPath();
      for (const d of drawn) {
        if (d.sent === 0 || s.losses.findIndex((upTo) => d.lost / d.sent <= upTo) !== i) continue;
        // A stretch of which nothing came back has no median: its mark stands at the bottom.
        const at = d.at ? y(d.at[MEDIAN] as number) : bbox.top + bbox.height - ctx.lineWidth / 2;
        ctx.moveTo(x(d.from), at);
        ctx.lineTo(Math.max(x(d.to), x(d.from) + devicePixelRatio), at);
      }
      ctx.stroke();
    });
    ctx.restore();
  };

  const stamp = uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}");
  const say = (t: number | null): void => {
    readout.replaceChildren();
    const d = t === null ? undefined : drawn.find((d) => (t - begin) / length < d.to && (t - begin) / length >= d.from);
    if (!d) {
      readout.textContent = `${hint()} Drag with Shift to move through time.`;
      return;
    }
    readout.append(element("b", "", `${stamp(zoned(begin + d.from * length))} to ${stamp(zoned(begin + d.to * length))}`));
    const moment = t === null ? undefined : momentAt(plots.all[0], moments, t);
    if (moment) readout.append(" · marked ", element("b", "", moment));
    if (d.sent === 0) {
      readout.append(" · no probes");
      return;
    }
    if (d.at) {
      for (const [name, i] of [["median", 0], ["95 %", 1], ["99 %", 2], ["largest", 3]] as const) {
        readout.append(` · ${name} `, element("b", "", `${digits(d.at[MEDIAN + i] as number)} ms`));
      }
    }
    readout.append(" · lost ", element("b", "", `${digits((100 * d.lost) / d.sent)} %`), ` of ${d.sent}`);
  };

  /** What is looked at, never narrower than five columns and never beyond what there is. */
  const zoom = (from: number, to: number): void => {
    const least = Math.min(span, 5 * s.least * length);
    const wide = Math.min(span, Math.max(to - from, least));
    const first = Math.min(Math.max(begin, (from + to - wide) / 2), end - wide);
    range = [first, first + wide];
    const u = plots.all[0];
    const data = bin();
    u?.batch(() => {
      u.setData(data, false);
      u.setScale("x", { min: range[0], max: range[1] });
    });
    all.classList.toggle("chosen", wide === span);
  };

  /** Moves through time with the mouse, at most once a frame. */
  const grab = (u: uPlot, begun: MouseEvent): void => {
    const [from, to] = range;
    let x = begun.clientX;
    let asked = false;
    const draw = (): void => {
      asked = false;
      const moved = ((x - begun.clientX) / u.over.clientWidth) * (to - from);
      zoom(from - moved, to - moved);
    };
    const move = (e: MouseEvent): void => {
      x = e.clientX;
      if (!asked) requestAnimationFrame(draw);
      asked = true;
    };
    document.addEventListener("mousemove", move);
    document.addEventListener("mouseup", () => document.removeEventListener("mousemove", move), { once: true });
  };

  const build = (width: number): uPlot[] => [
    new uPlot(
      {
        width,
        height: width < 480 ? 240 : 320,
        legend: { show: false },
        tzDate: zoned,
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 5, setScale: false }, bind: {
            dblclick: () => () => (zoom(begin, end), null),
            mousedown: (u, _, select) => (e) => (e.shiftKey ? (grab(u, e), null) : select(e)),
          },
        },
        scales: {
          x: { time: true, min: range[0], max: range[1] },
          y: show.log ? { distr: 3, range: () => [bottom, top] } : { range: () => [0, top] },
        },
        axes: [dates(), axis({ size: width < 480 ? 44 : 52, ...(show.log ? logarithmic : {}) })],
        series: [{}, { stroke: colour("both"), width: 1, points: { show: false }, show: show.p99 }],
        hooks: {
          drawAxes: [puffs],
          draw: [(u) => drawMoments(u, moments, true)],
          setCursor: [(u) => say(u.cursor.left === undefined || u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x"))],
          setSelect: [
            (u) => {
              if (u.select.width <= 0) return;
              const [from, to] = [u.posToVal(u.select.left, "x"), u.posToVal(u.select.left + u.select.width, "x")];
              u.setSelect({ left: 0, top: 0, width: 0, height: 0 }, false);
              zoom(from, to);
            },
          ],
        },
      },
      bin(),
      area,
    ),
  ];
  const plots: Plots = new Plots(box, build);

  const button = (text: string, act: () => void): HTMLButtonElement => {
    const made = element("button", "", text);
    made.type = "button";
    made.addEventListener("click", act);
    tools.append(made);
    return made;
  };
  const all = button("All", () => zoom(begin, end));
  all.classList.add("chosen");
  const wide = (): number => range[1] - range[0];
  const middle = (): number => {
    const left = plots.all[0]?.cursor.left ?? -1;
    return left >= 0 ? plots.all[0]!.posToVal(left, "x") : (range[0] + range[1]) / 2;
  };
  button("Zoom in", () => zoom(middle() - wide() / 6, middle() + wide() / 6));
  button("Zoom out", () => zoom(range[0] - wide(), range[1] + wide()));
  button("Earlier", () => zoom(range[0] - wide() / 2, range[1] - wide() / 2));
  button("Later", () => zoom(range[0] + wide() / 2, range[1] + wide() / 2));
  tools.append(element("span", "push"));
  tools.append(toggle("99th percentile", true, (on) => {
    show.p99 = on;
    plots.all[0]?.setSeries(1, { show: on });
  }, "both"));
  tools.append(toggle("Logarithmic", false, (on) => {
    show.log = on;
    plots.again();
  }));
  const legend = element("p", "plot-name", "Round-trip time, ms. Median in the colour of the losses, %: ");
  names.forEach((name, i) => {
    const mark = element("span", "swatch loss-mark");
    mark.style.color = strokes[i] as string;
    legend.append(mark, ` ${name} `);
  });
  box.append(tools, legend, area, readout);
  say(null);
  movable(area, "Distribution of the round-trip time over time", () => plots.all[0]);
}
