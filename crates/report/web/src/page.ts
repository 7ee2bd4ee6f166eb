// The script of report.html: turns the static plots into ones that can be read point by point. The page is
// complete without it.
import uPlot from "uplot";
import { EXCHANGED, byId, digits, element } from "./dom";
import { FONT, Plots, axis, colour, dates, hint, lastUpTo, live, logarithmic, movable, nearest, tint, toggle, drawMoments, momentAt } from "./plot";
import { packets } from "./packets";
import type { Line, PageCurves as Curves, RateBins } from "./schema";
import { type Singles, singles } from "./singles";
import { BOUNDS, type Drawn, columns, decode, edges, smoke } from "./smoke";

type Column = (number | null | undefined)[];

const DASHES: Record<string, number[]> = { idle: [2, 3], up: [8, 3], both: [8, 3, 2, 3] };
/** Opacity of a mark up to each share of lost probes, as in the static picture (`bands` in `report/src/plots/over_time.rs`). */
const SHADES: [number, number][] = [[0.005, 0.25], [0.05, 0.6]];
const embedded = (id: string): string => byId(id)?.textContent ?? "null";
const known = (phase: string): string => (["idle", "down", "up", "both"].includes(phase) ? phase : "idle");

function overTime(figure: HTMLElement, c: Curves): void {
  const box = live(figure);
  const show = { probe: true, flow: true, loss: true, log: false };
  // Of weeks there are no single probes: what is shown is drawn by the bounds of its columns, added up anew.
  const counts = c.probes.t_s.length === 0 && c.smoke ? decode(c.smoke) : null;
  const cells = counts && c.smoke ? { counts, smoke: c.smoke, ends: edges(counts, c.smoke) } : null;
  const civil = c.from_s !== undefined;
  const begin = c.from_s ?? 0;
  const end = begin + c.span_s;
  const bins = (): RateBins => near?.bins ?? c.bins;
  const centre = (): number[] => bins().down_bps.map((_, i) => (near?.from ?? begin) + (i + 0.5) * bins().step_s);
  const ends = [[begin, end]] as unknown as uPlot.AlignedData;
  const length = cells ? c.span_s / cells.smoke.cells : 0;
  let drawn: Drawn[] = [];
  // Where few enough are looked at, single probes take the place of the bounds.
  let near: Singles | null = null;
  const probes = (): Line => near?.probes ?? c.probes;
  const lost = (): number[] => near?.lost_s ?? c.lost_s;
  /** Largest, smallest, 95 %, 5 % and median of each column between two instants. */
  const bounds = (from: number, to: number): uPlot.AlignedData => {
    if (!cells) return [[]];
    const cell = (t: number): number => (t - begin) / length;
    drawn = columns(cells.counts, cells.smoke, cells.ends, Math.max(0, Math.floor(cell(from) + 1e-6)), Math.min(cells.smoke.cells, Math.ceil(cell(to) - 1e-6)));
    const of = (at: number): Column => drawn.map((d) => d.at?.[at] ?? null);
    const { min, low, median, high, max } = BOUNDS;
    return [drawn.map((d) => begin + ((d.from + d.to) / 2) * length), of(max), of(min), of(high), of(low), of(median)] as uPlot.AlignedData;
  };
  const delays = (): uPlot.AlignedData =>
    uPlot.join(
      // In-flow lines lie under the probes: they come first.
      [...[c.in_flow_down, c.in_flow_up, probes()].map((l): uPlot.AlignedData => [l.t_s, l.ms]), ends],
      // 2: a null reaches to the next value of its own series, over the instants of the others.
      [[0, 2], [0, 2], [0, 2], [0]],
    );
  const top = Math.max(...[...c.bins.down_bps, ...c.bins.up_bps].map((v) => v ?? 0));
  const [unit, size] = ([["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]] as [string, number][]).find(([, s]) => top >= s) ?? ["bit/s", 1];
  const scaled = (series: (number | null)[]): Column => series.map((v) => (v === null ? null : v / size));
  const rates = (): uPlot.AlignedData => uPlot.join([[centre(), scaled(bins().down_bps), scaled(bins().up_bps)] as uPlot.AlignedData, ends]);
  const hasFlow = c.in_flow_down.t_s.length + c.in_flow_up.t_s.length > 0;

  const zoned = (t: number): Date => (c.zone ? uPlot.tzDate(new Date(t * 1e3), c.zone) : new Date(t * 1e3));
  const tools = element("div", "tools");
  const upper = element("div", "plot");
  const lower = element("div", "plot");
  const readout = element("p", "readout");
  readout.setAttribute("aria-live", "polite");

  const shade = (u: uPlot, labels: boolean): void => {
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top, bbox.width, bbox.height);
    ctx.clip();
    for (const p of c.phases) {
      const left = u.valToPos(p.from_s, "x", true);
      const right = u.valToPos(p.to_s, "x", true);
      ctx.globalAlpha = 0.09;
      ctx.fillStyle = colour(known(p.name));
      ctx.fillRect(left, bbox.top, right - left, bbox.height);
    }
    ctx.restore();
    if (!labels) return;
    ctx.save();
    ctx.font = FONT.replace("12px", `${12 * devicePixelRatio}px`);
    ctx.fillStyle = colour("muted");
    ctx.textAlign = "center";
    ctx.textBaseline = "bottom";
    for (const p of c.phases) {
      const from = Math.max(u.valToPos(p.from_s, "x", true), bbox.left);
      const to = Math.min(u.valToPos(p.to_s, "x", true), bbox.left + bbox.width);
      if (ctx.measureText(p.label).width < to - from) ctx.fillText(p.label, (from + to) / 2, bbox.top - 4 * devicePixelRatio);
    }
    ctx.restore();
  };
  const losses = (u: uPlot): void => {
    if (!show.loss) return;
    const { ctx, bbox } = u;
    const inside = (x: number): number => Math.min(bbox.left + bbox.width, Math.max(bbox.left, x));
    const height = 8 * devicePixelRatio;
    ctx.save();
    ctx.fillStyle = ctx.strokeStyle = colour("loss");
    ctx.lineWidth = 1.5 * devicePixelRatio;
    if (cells && !near) {
      // A column of thousands of probes is as strong as the share that it lost.
      for (const d of drawn.filter((d) => d.lost > 0)) {
        ctx.globalAlpha = SHADES.find(([upTo]) => d.lost <= upTo * d.sent)?.[1] ?? 1;
        const [from, to] = [d.from, d.to].map((at) => inside(u.valToPos(begin + at * length, "x", true))) as [number, number];
        if (to > from) ctx.fillRect(from, bbox.top, Math.max(to - from, ctx.lineWidth), height);
      }
      ctx.restore();
      return;
    }
    ctx.beginPath();
    for (const t of lost()) {
      const x = u.valToPos(t, "x", true);
      if (x !== inside(x)) continue;
      ctx.moveTo(x, bbox.top);
      ctx.lineTo(x, bbox.top + height);
    }
    ctx.stroke();
    ctx.restore();
  };

  const say = (t: number | null): void => {
    readout.replaceChildren();
    if (t === null) {
      readout.textContent = hint();
      return;
    }
    const parts: [string, string][] = [["", civil ? uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}")(zoned(t)) : `${t.toFixed(2)} s`]];
    const moment = momentAt(plots.all[0], c.moments, t);
    if (moment) parts.push(["marked", moment]);
    const about = (name: string, line: Line): void => {
      const i = nearest(line.t_s, t);
      if (i < 0 || Math.abs((line.t_s[i] as number) - t) > (near ? range[1] - range[0] : c.span_s) / 100) return;
      const ms = line.ms[i];
      if (ms != null) parts.push([name, `${digits(ms)} ms`]);
      else if (line === probes()) parts.push([name, "lost"]);
    };
    const column = near ? undefined : drawn.find((d) => (t - begin) / length < d.to && (t - begin) / length >= d.from);
    if (column?.at) {
      const { min, low, median, high, max } = BOUNDS;
      const of = (at: number): string => digits(column.at?.[at] as number);
      parts.push(["median", `${of(median)} ms`], ["5 to 95 %", `${of(low)} to ${of(high)} ms`], ["all", `${of(min)} to ${of(max)} ms`]);
    }
    if (column) parts.push(["lost", column.sent > 0 ? `${digits((100 * column.lost) / column.sent)} %` : "no probes"]);
    about("probe", probes());
    about("download's own packets", c.in_flow_down);
    about("upload's own packets", c.in_flow_up);
    const { step_s, down_bps, up_bps } = bins();
    const bin = Math.min(down_bps.length - 1, Math.max(0, Math.floor((t - (near?.from ?? begin)) / step_s)));
    const at = (name: string, series: (number | null)[]): void => {
      const v = series[bin];
      if (v != null) parts.push([name, `${digits(v / size)} ${unit}`]);
    };
    at("download", down_bps);
    at("upload", up_bps);
    parts.forEach(([name, value], k) => {
      if (k > 0) readout.append(" · ");
      if (name) readout.append(`${name} `);
      readout.append(element("b", "", value));
    });
  };

  const named = (): string => (cells && !near ? "Round-trip time, ms: median, 5 to 95 %, smallest to largest" : "Round-trip time, ms");
  const title = element("p", "plot-name", named());
  let rebuilding = false;
  /** Draws single probes, or the bounds again. A plot calls this as well, so it is replaced only once it is done. */
  const show_near = (found: Singles | null): void => {
    near = found;
    title.textContent = named();
    if (!rebuilding) {
      setTimeout(() => {
        rebuilding = false;
        if (box.isConnected) plots.again();
      });
    }
    rebuilding = true;
  };
  const sync = uPlot.sync("tailback-time");
  let range: [number, number] = [begin, end];
  const zoomButtons: [HTMLButtonElement, [number, number]][] = [];
  const zoom = (from: number, to: number): void => {
    if (from === range[0] && to === range[1]) return;
    range = [from, to];
    if (cells && near && !(from >= near.from && to <= near.to)) show_near(null);
    if (cells && !near) {
      const data = bounds(from, to);
      if (!rebuilding) plots.all[0]?.setData(data, false);
    }
    closer?.look(range, near !== null, drawn.reduce((sum, d) => sum + d.sent, 0));
    for (const plot of plots.all) plot.setScale("x", { min: from, max: to });
    for (const [button, [a, b]] of zoomButtons) button.classList.toggle("chosen", a === from && b === to);
  };
  const shared = (width: number, height: number): Pick<uPlot.Options, "width" | "height" | "cursor" | "legend" | "tzDate"> => ({
    width,
    height,
    legend: { show: false },
    tzDate: zoned,
    cursor: { sync: { key: sync.key, setSeries: false }, y: false, points: { show: false }, drag: { x: true, y: false, dist: 5 } },
  });
  const hooks = (labels: boolean): uPlot.Hooks.Arrays => ({
    drawClear: [(u) => shade(u, labels)],
    draw: [(u) => drawMoments(u, c.moments, labels), ...(labels ? [losses] : [])],
    setCursor: labels ? [(u) => say(u.cursor.left === undefined || u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x"))] : [],
    setScale: [(u, key) => key === "x" && u.scales["x"]?.min != null && zoom(u.scales["x"].min, u.scales["x"].max as number)],
  });
  const x: uPlot.Scale = { time: civil, min: begin, max: end };
  // Late ones (above 10 s), as of packets that an outage held back: one answer after minutes would leave nothing to see of the rest: the axis ends where nearly all of what is shown does.
  const most = (u: uPlot, _min: number, max: number): uPlot.Range.MinMax => {
    const [from, to] = range;
    const times = u.data[0];
    const shown: number[] = [];
    for (let i = 0; i < times.length; i++) {
      const v = u.data[cells && !near ? 1 : 3]?.[i];
      if (v != null && (times[i] as number) >= from && (times[i] as number) <= to) shown.push(v);
    }
    shown.sort((a, b) => a - b);
    const usual = shown[Math.floor(shown.length * 0.995)] ?? 0;
    return [0, (usual > 0 && max > 10_000 && max > 4 * usual ? usual : max || 1) * 1.12];
  };
  const fromZero = (_: uPlot, _min: number, max: number): uPlot.Range.MinMax => [0, (max || 1) * 1.12];

  const build = (width: number): uPlot[] => {
    const narrow = width < 480;
    const made: uPlot[] = [];
    const edge: uPlot.Series = { points: { show: false } };
    const bands: Pick<uPlot.Options, "series" | "bands"> = {
      series: [{}, edge, { ...edge }, { ...edge }, { ...edge }, { stroke: colour("ink"), width: 1.6, points: { show: false } }],
      bands: [
        { series: [1, 2], fill: tint("ink", 0.14) },
        { series: [3, 4], fill: tint("ink", 0.22) },
      ],
    };
    const own: uPlot.Series = { stroke: colour("flow"), alpha: 0.55, width: 3, points: { show: false }, show: show.flow };
    const at = range;
    made.push(
      new uPlot(
        {
          ...shared(width, narrow ? 240 : 320),
          padding: [22, null, null, null],
          scales: {
            x: { ...x, min: at[0], max: at[1] },
            y: show.log ? { distr: 3, range: (_u, min, max) => [(min || 1) * 0.85, (max || 1) * 1.5] } : { range: civil ? most : fromZero },
          },
          axes: [civil && top === 0 ? dates() : axis({ values: (_u, s) => s.map(() => ""), size: 8 }), axis({ size: narrow ? 44 : 52, ...(show.log ? logarithmic : {}) })],
          ...(cells && !near ? bands : { series: [{}, own, { ...own }, { stroke: colour("ink"), width: 1, points: { show: false }, show: show.probe }] }),
          hooks: hooks(true),
        },
        cells && !near ? bounds(at[0], at[1]) : delays(),
        upper,
      ),
    );
    if (top > 0) {
      const line = (name: string): uPlot.Series => ({ stroke: colour(name), width: 2, points: { show: false } });
      made.push(
        new uPlot(
          {
            ...shared(width, narrow ? 150 : 170),
            scales: { x: { ...x, min: at[0], max: at[1] }, y: { range: fromZero } },
            axes: [civil ? dates() : axis({ label: "time, s", size: 32 }), axis({ size: narrow ? 44 : 52, space: 26 })],
            series: [{}, line("down"), line("up")],
            hooks: hooks(false),
          },
          rates(),
          lower,
        ),
      );
    }
    for (const plot of made) sync.sub(plot);
    return made;
  };
  const plots: Plots = new Plots(box, build);

  const choose = (text: string, from: number, to: number): void => {
    const button = element("button", from === begin && to === end ? "chosen" : "", text);
    button.type = "button";
    button.addEventListener("click", () => zoom(from, to));
    zoomButtons.push([button, [from, to]]);
    tools.append(button);
  };
  choose("All", begin, end);
  for (const p of c.phases) choose(p.label, p.from_s, p.to_s);
  tools.append(element("span", "push"));
  const series = (indices: number[], key: "probe" | "flow") => (on: boolean) => {
    show[key] = on;
    for (const i of indices) plots.all[0]?.setSeries(i, { show: on });
  };
  if (!cells) tools.append(toggle("Probes", true, series([3], "probe"), "ink"));
  if (hasFlow) tools.append(toggle("Load's own packets", true, series([1, 2], "flow"), "flow"));
  if (c.lost_s.length > 0 || counts?.lost.some((n) => n > 0)) {
    tools.append(toggle("Lost", true, (on) => {
      show.loss = on;
      plots.all[0]?.redraw();
    }, "loss"));
  }
  tools.append(toggle("Logarithmic", false, (on) => {
    show.log = on;
    plots.again();
  }));

  const legend = element("p", "plot-name", `Throughput, ${unit}: `);
  for (const [name, text] of [["down", "download"], ["up", "upload"]] as const) {
    const word = element("span", "", `${text} `);
    word.style.color = `var(--${name})`;
    legend.append(word);
  }
  const closer = cells ? singles(c, zoned, () => range, show_near) : null;
  box.append(tools, title, upper);
  if (top > 0) box.append(legend, lower);
  box.append(readout);
  if (closer) {
    box.append(closer.says);
    closer.look(range, false, counts ? counts.sent.reduce((sum, n) => sum + n, 0) : 0);
  }
  say(null);
  movable(upper, "Round-trip time over time", () => plots.all[0]);
}

/** Colour and dashes of a curve: those of its phase, or the ink where there are no phases. */
const curve = (phase: string): string => (phase in DASHES || phase === "down" ? phase : "ink");
/** The share of a delay holds up to the next one: a slope would be mass where no probe was. */
const stairs = uPlot.paths.stepped!({ align: 1 });

function distribution(figure: HTMLElement, c: Curves): void {
  const box = live(figure);
  let log = true;
  const tools = element("div", "tools");
  const area = element("div", "plot");
  const readout = element("p", "readout");
  readout.setAttribute("aria-live", "polite");
  const say = (ms: number | null): void => {
    readout.replaceChildren();
    if (ms === null) {
      readout.textContent = hint();
      return;
    }
    readout.append(element("b", "", `within ${digits(ms)} ms`));
    const i = lastUpTo(c.cdf.ms, ms);
    for (const p of c.cdf.phases) {
      const share = i < 0 ? 0 : (p.percent[i] as number);
      readout.append(` · ${p.label} `, element("b", "", `${share > 99 && share < 100 ? String(Math.floor(share * 100) / 100) : digits(share)} %`));
    }
  };
  const build = (width: number): uPlot[] => [
    new uPlot(
      {
        width,
        height: width < 480 ? 240 : 300,
        legend: { show: false },
        cursor: { y: false, points: { show: false }, drag: { x: true, y: false, dist: 5 } },
        scales: { x: log ? { time: false, distr: 3, range: (_u, min, max) => [min * 0.97, max * 1.03] } : { time: false }, y: { range: [0, 100] } },
        axes: [axis({ label: "round-trip time, ms", size: 32, ...(log ? logarithmic : {}) }), axis({ size: 44 })],
        series: [{}, ...c.cdf.phases.map((p): uPlot.Series => ({ stroke: colour(curve(p.name)), width: 2, dash: DASHES[curve(p.name)] ?? [], points: { show: false }, paths: stairs }))],
        hooks: { setCursor: [(u) => say(u.cursor.left === undefined || u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x"))] },
      },
      [c.cdf.ms, ...c.cdf.phases.map((p) => p.percent)] as uPlot.AlignedData,
      area,
    ),
  ];
  const plots: Plots = new Plots(box, build);
  c.cdf.phases.forEach((p, i) => tools.append(toggle(p.label, true, (on) => plots.all[0]?.setSeries(i + 1, { show: on }), curve(p.name))));
  tools.append(element("span", "push"), toggle("Logarithmic", true, (on) => {
    log = on;
    plots.again();
  }));
  box.append(tools, element("p", "plot-name", "Probes answered within, %"), area, readout);
  say(null);
  movable(area, "Share of probes answered within a time", () => plots.all[0]);
}

/** Cells of a picture say in a line below what else only a tooltip would, which neither fingers nor keys can reach. */
function readable(figure: HTMLElement): void {
  const cells = [...figure.querySelectorAll<SVGElement>("rect:has(> title)")];
  const picture = figure.querySelector("svg");
  if (!picture || cells.length === 0) return;
  const readout = element("p", "readout", hint().replace("plot", "picture"));
  readout.setAttribute("aria-live", "polite");
  figure.append(readout);
  const said = (cell: SVGElement): string => cell.querySelector("title")?.textContent ?? "";
  let at = -1;
  const choose = (next: number): void => {
    cells[at]?.classList.remove("chosen");
    at = next;
    const cell = cells[at];
    cell?.classList.add("chosen");
    readout.textContent = cell ? said(cell) : hint().replace("plot", "picture");
  };
  const point = (event: Event): void => choose(cells.indexOf((event.target as Element).closest("rect") as SVGElement));
  picture.addEventListener("pointerover", point);
  picture.addEventListener("click", point);
  const name = picture.getAttribute("aria-label") ?? picture.querySelector("text")?.textContent ?? "";
  const box = picture.parentElement ?? figure;
  box.tabIndex = 0;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `${name}. The arrow keys move from cell to cell.`);
  const number = (cell: SVGElement, name: string): number => Number(cell.getAttribute(name));
  // Of bars, the feet stand in a row.
  const place = (cell: SVGElement): [number, number] => [number(cell, "x"), number(cell, "y") + number(cell, "height")];
  box.addEventListener("keydown", (event) => {
    const way = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[event.key];
    if (!way) return;
    event.preventDefault();
    const from = cells[at];
    if (!from) return choose(0);
    const [x, y] = place(from);
    let best = at;
    let least = Infinity;
    cells.forEach((cell, i) => {
      const [dx, dy] = [place(cell)[0] - x, place(cell)[1] - y];
      const along = dx * (way[0] as number) + dy * (way[1] as number);
      const aside = Math.abs(dx * (way[1] as number)) + Math.abs(dy * (way[0] as number));
      if (along > 0.5 && along + 8 * aside < least) [best, least] = [i, along + 8 * aside];
    });
    choose(best);
  });
}

function copyable(): void {
  for (const commands of document.querySelectorAll<HTMLElement>(".commands")) {
    const code = commands.querySelector("code");
    if (!code) continue;
    const button = element("button", "", "Copy");
    button.type = "button";
    button.addEventListener("click", async () => {
      try {
        await navigator.clipboard.writeText(code.textContent ?? "");
        button.textContent = "Copied";
      } catch {
        // Some browsers keep the clipboard from pages opened as files: then the text is selected, ready for Ctrl+C.
        getSelection()?.selectAllChildren(code);
        button.textContent = "Selected: press Ctrl+C";
      }
      setTimeout(() => (button.textContent = "Copy"), 2500);
    });
    commands.append(button);
  }
}

function download(): void {
  const link = byId("download") as HTMLAnchorElement | null;
  if (link) link.href = URL.createObjectURL(new Blob([embedded("answer")], { type: "application/json" }));
}

/** Brings the page to life, with the data that it holds at this time. */
function enliven(): void {
  // Of a capture there are packets in place of curves.
  if (byId("curves")) {
    const curves = JSON.parse(embedded("curves")) as Curves;
    if (curves.from_s !== undefined) {
      const from = curves.from_s;
      const moved = (times: number[]): number[] => times.map((t) => t + from);
      for (const line of [curves.probes, curves.in_flow_down, curves.in_flow_up]) line.t_s = moved(line.t_s);
      curves.lost_s = moved(curves.lost_s);
      for (const m of curves.moments) m.t_s += from;
    }
    const time = byId("over-time");
    const within = byId("distribution");
    if (time) overTime(time, curves);
    if (within) distribution(within, curves);
    const cloud = byId("smoke");
    if (cloud && curves.smoke) smoke(cloud, curves.smoke, curves.from_s ?? 0, curves.span_s, curves.zone, curves.moments);
  }
  const bytes = byId("bytes-over-time");
  if (bytes) packets(bytes);
  for (const figure of document.querySelectorAll<HTMLElement>("figure.cells")) readable(figure);
  copyable();
  download();
}

document.documentElement.classList.add("scripted");
enliven();
document.addEventListener(EXCHANGED, enliven);
