// The packets of a capture: bytes, throughput, bytes in flight and round trips over the same time, packet by packet.
import { digits, element } from "./dom";
import { FONT, Plots, axis, colour, hint, lastUpTo, live, movable } from "./plot";
import type { PacketsOfWay as Way } from "./schema";
import uPlot from "uplot";

/** A direction, unpacked: rising times, and what belongs to each. */
interface Packets {
  way: Way;
  sent: { t: Float64Array; from: Float64Array; to: Float64Array; fresh: Float64Array; flight: Float64Array };
  acked: { t: Float64Array; to: Float64Array; room: Float64Array };
  again: { t: Float64Array; from: Float64Array; to: Float64Array; cause: Float64Array; needless: Float64Array };
  sacked: { t: Float64Array; from: Float64Array; to: Float64Array };
  marks: { t: Float64Array; at: Float64Array; kind: Float64Array };
  rtt: { t: Float64Array; ms: Float64Array };
}

const CAUSES = ["time-out", "three duplicate ACKs", "SACK", "recovery", "tail probe", "no reason that shows"];
const MARKS = ["S", "F", "R"];
/** From so many segments in sight on, what falls on one column of pixels is drawn as its extremes. */
const FEW = 3000;

const cause = (i: number): string => colour(["loss", "up", "both", "recovery", "tail", "idle"][i] ?? "idle");

async function unpack(way: Way): Promise<Packets> {
  const packed = Uint8Array.from(atob(way.data), (c) => c.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
  const bytes = new Uint8Array(await new Response(stream).arrayBuffer());
  let at = 0;
  const number = (): number => {
    let value = 0;
    let scale = 1;
    for (;;) {
      const byte = bytes[at++] as number;
      value += (byte & 127) * scale;
      if (byte < 128) return value;
      scale *= 128;
    }
  };
  const column = (scale: number): Float64Array => {
    const values = new Float64Array(number());
    let value = 0;
    for (let i = 0; i < values.length; i++) {
      const step = number();
      value += step % 2 === 0 ? step / 2 : -(step + 1) / 2;
      values[i] = value * scale;
    }
    return values;
  };
  const times = (): Float64Array => column(1e-6);
  return {
    way,
    sent: { t: times(), from: column(1), to: column(1), fresh: column(1), flight: column(1) },
    acked: { t: times(), to: column(1), room: column(1) },
    again: { t: times(), from: column(1), to: column(1), cause: column(1), needless: column(1) },
    sacked: { t: times(), from: column(1), to: column(1) },
    marks: { t: times(), at: column(1), kind: column(1) },
    rtt: { t: times(), ms: column(1e-3) },
  };
}

/** The first and the one after the last that are in sight. */
const within = (t: Float64Array, from: number, to: number): [number, number] => [lastUpTo(t, from - 1e-12) + 1, lastUpTo(t, to) + 1];

const sizes: [string, number][] = [["GB", 1e9], ["MB", 1e6], ["kB", 1e3], ["B", 1]];
const rates: [string, number][] = [["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3], ["bit/s", 1]];
function fitting(units: [string, number][], value: number): [string, number] {
  return units.find(([, size]) => Math.abs(value) >= size) ?? (units[units.length - 1] as [string, number]);
}
function told(units: [string, number][], value: number): string {
  const [unit, size] = fitting(units, value);
  return `${digits(value / size)} ${unit}`;
}

export function packets(figure: HTMLElement): void {
  const ways = [...document.querySelectorAll<HTMLElement>("script.packets")].map((s) => JSON.parse(s.textContent ?? "null") as Way);
  const first = ways[0];
  if (!first || typeof DecompressionStream === "undefined") return;
  const box = live(figure);
  const tools = element("div", "tools");
  const legend = element("p", "evidence");
  const readout = element("p", "readout");
  readout.setAttribute("aria-live", "polite");
  const areas = ["bytes", "throughput", "flight", "rtt"].map(() => element("div", "plot"));
  let shown: Packets | undefined;
  let range: [number, number] = first.span_s;

  // The values of a plot's own series are none: everything is drawn from the packets, as many as are in sight.
  const ends = (): uPlot.AlignedData => [range, [null, null]] as unknown as uPlot.AlignedData;
  const clipped = (draw: (u: uPlot, p: Packets, ctx: CanvasRenderingContext2D) => void) => (u: uPlot): void => {
    if (!shown) return;
    const { ctx, bbox } = u;
    ctx.save();
    ctx.beginPath();
    ctx.rect(bbox.left, bbox.top - 4 * devicePixelRatio, bbox.width, bbox.height + 4 * devicePixelRatio);
    ctx.clip();
    draw(u, shown, ctx);
    ctx.restore();
  };
  const place = (u: uPlot) => {
    const [min, max] = [u.scales["x"]?.min ?? 0, u.scales["x"]?.max ?? 1];
    const [low, high] = [u.scales["y"]?.min ?? 0, u.scales["y"]?.max ?? 1];
    const { left, top, width, height } = u.bbox;
    return {
      min,
      max,
      x: (t: number): number => left + (width * (t - min)) / (max - min),
      y: (v: number): number => top + height * (1 - (v - low) / (high - low)),
    };
  };

  /** Upright bars from one value to another; many are put together by the column of pixels. */
  function bars(u: uPlot, ctx: CanvasRenderingContext2D, t: Float64Array, from: Float64Array, to: Float64Array, style: string, width: number): void {
    const { min, max, x, y } = place(u);
    const [a, b] = within(t, min, max);
    ctx.fillStyle = style;
    const w = width * devicePixelRatio;
    if (b - a <= FEW) {
      for (let i = a; i < b; i++) {
        const top = y(to[i] as number);
        ctx.fillRect(x(t[i] as number) - w / 2, top, w, Math.max(y(from[i] as number) - top, devicePixelRatio));
      }
      return;
    }
    let column = -1;
    let low = 0;
    let high = 0;
    const flush = (): void => {
      if (column >= 0) ctx.fillRect(column, y(high), Math.max(w, 1), Math.max(y(low) - y(high), devicePixelRatio));
    };
    for (let i = a; i < b; i++) {
      const at = Math.floor(x(t[i] as number));
      const f = from[i] as number;
      const e = to[i] as number;
      if (at !== column) {
        flush();
        [column, low, high] = [at, f, e];
      } else {
        if (f < low) low = f;
        if (e > high) high = e;
      }
    }
    flush();
  }

  /** A line that keeps its value until the next one. */
  function stairs(u: uPlot, ctx: CanvasRenderingContext2D, t: Float64Array, value: (i: number) => number, style: string, width: number, dash: number[] = []): void {
    const { min, max, x, y } = place(u);
    const [a, b] = within(t, min, max);
    if (t.length === 0) return;
    ctx.strokeStyle = style;
    ctx.lineWidth = width * devicePixelRatio;
    ctx.setLineDash(dash.map((d) => d * devicePixelRatio));
    ctx.beginPath();
    let before = a > 0 ? y(value(a - 1)) : y(value(a));
    ctx.moveTo(x(a > 0 ? min : (t[a] as number)), before);
    let column = -1;
    let low = Infinity;
    let high = -Infinity;
    const step = 0.5;
    for (let i = a; i < b; i++) {
      const px = x(t[i] as number);
      const py = y(value(i));
      const at = Math.floor(px / step);
      if (at !== column) {
        if (column >= 0 && high > low) {
          ctx.lineTo(column * step, low);
          ctx.lineTo(column * step, high);
          ctx.lineTo(column * step, before);
        }
        ctx.lineTo(px, before);
        [column, low, high] = [at, py, py];
      }
      if (py < low) low = py;
      if (py > high) high = py;
      ctx.lineTo(px, py);
      before = py;
      // Of many on one column only the extremes matter.
      if (b - a > FEW) {
        while (i + 1 < b && Math.floor(x(t[i + 1] as number) / step) === at) {
          i++;
          before = y(value(i));
          if (before < low) low = before;
          if (before > high) high = before;
        }
      }
    }
    ctx.lineTo(x(Math.min(max, t[t.length - 1] as number)), before);
    ctx.stroke();
    ctx.setLineDash([]);
  }

  /** Each cause has its shape, so that colour is not all that tells them apart. */
  function shape(ctx: CanvasRenderingContext2D, kind: number, x: number, y: number): void {
    const r = 4 * devicePixelRatio;
    ctx.beginPath();
    if (kind === 2) ctx.arc(x, y, r, 0, 7);
    else {
      const corners = [
        [[0, -1.2], [1.2, 0], [0, 1.2], [-1.2, 0]],
        [[0, -1.2], [1.1, 0.9], [-1.1, 0.9]],
        [],
        [[-0.85, -0.85], [0.85, -0.85], [0.85, 0.85], [-0.85, 0.85]],
        [[0, 1.2], [1.1, -0.9], [-1.1, -0.9]],
        [[-1, -1], [0, -0.3], [1, -1], [0.3, 0], [1, 1], [0, 0.3], [-1, 1], [-0.3, 0]],
      ][kind] as [number, number][] | undefined;
      for (const [dx, dy] of corners ?? []) ctx.lineTo(x + dx * r, y + dy * r);
      ctx.closePath();
    }
  }

  const sequence = clipped((u, p, ctx) => {
    const { min, max, x, y } = place(u);
    stairs(u, ctx, p.acked.t, (i) => p.acked.room[i] as number, colour("muted"), 1, [5, 3]);
    ctx.globalAlpha = 0.45;
    bars(u, ctx, p.sacked.t, p.sacked.from, p.sacked.to, colour("both"), 2);
    ctx.globalAlpha = 1;
    bars(u, ctx, p.sent.t, p.sent.from, p.sent.to, colour("down"), 1.5);
    stairs(u, ctx, p.acked.t, (i) => p.acked.to[i] as number, colour("flow"), 1.4);
    const [a, b] = within(p.again.t, min, max);
    for (let i = a; i < b; i++) {
      const kind = p.again.cause[i] as number;
      const [px, from, to] = [x(p.again.t[i] as number), y(p.again.from[i] as number), y(p.again.to[i] as number)];
      ctx.fillStyle = ctx.strokeStyle = cause(kind);
      ctx.fillRect(px - devicePixelRatio, to, 2 * devicePixelRatio, Math.max(from - to, devicePixelRatio));
      shape(ctx, kind, px, (from + to) / 2);
      if (p.again.needless[i]) {
        ctx.fillStyle = colour("paper");
        ctx.lineWidth = 1.4 * devicePixelRatio;
      }
      ctx.fill();
      ctx.stroke();
    }
    ctx.font = `bold ${FONT.replace("12px", `${12 * devicePixelRatio}px`)}`;
    const [c, d] = within(p.marks.t, min, max);
    for (let i = c; i < Math.min(d, c + 60); i++) {
      const kind = p.marks.kind[i] as number;
      ctx.fillStyle = colour(kind === 2 ? "loss" : "ink");
      ctx.fillText(MARKS[kind] ?? "", x(p.marks.t[i] as number) + 4 * devicePixelRatio, y(p.marks.at[i] as number) - 5 * devicePixelRatio);
    }
  });

  /** Payload acknowledged, sent and sent again over steps of what is in sight. */
  const steps = { from: 0, each: 1, acked: new Float64Array(0), fresh: new Float64Array(0), again: new Float64Array(0) };
  function count(min: number, max: number): void {
    if (!shown) return;
    const n = 240;
    const each = Math.max((max - min) / n, 1e-6);
    Object.assign(steps, { from: min, each, acked: new Float64Array(n), fresh: new Float64Array(n), again: new Float64Array(n) });
    const { sent, acked } = shown;
    const [a, b] = within(sent.t, min, max);
    const at = (t: number): number => Math.min(n - 1, Math.max(0, Math.floor((t - min) / each)));
    const rate = 8 / each;
    for (let i = a; i < b; i++) {
      const k = at(sent.t[i] as number);
      const fresh = sent.fresh[i] as number;
      (steps.fresh[k] as number) += fresh * rate;
      (steps.again[k] as number) += Math.max(0, (sent.to[i] as number) - (sent.from[i] as number) - fresh) * rate;
    }
    const [c, d] = within(acked.t, min, max);
    for (let i = Math.max(c, 1); i < d; i++) (steps.acked[at(acked.t[i] as number)] as number) += Math.max(0, (acked.to[i] as number) - (acked.to[i - 1] as number)) * rate;
  }
  const throughput = clipped((u, _p, ctx) => {
    const { x, y } = place(u);
    for (const [values, name, width] of [[steps.fresh, "down", 1.5], [steps.acked, "flow", 1.5], [steps.again, "loss", 1.5]] as [Float64Array, string, number][]) {
      if (name === "loss" && values.every((v) => v === 0)) continue;
      ctx.strokeStyle = colour(name);
      ctx.lineWidth = width * devicePixelRatio;
      ctx.beginPath();
      values.forEach((v, i) => ctx.lineTo(x(steps.from + (i + 0.5) * steps.each), y(v)));
      ctx.stroke();
    }
  });

  const ticks = (u: uPlot, p: Packets, ctx: CanvasRenderingContext2D): void => {
    const { min, max, x } = place(u);
    const [a, b] = within(p.again.t, min, max);
    for (let i = a; i < b; i++) {
      ctx.fillStyle = cause(p.again.cause[i] as number);
      ctx.fillRect(x(p.again.t[i] as number) - 0.75 * devicePixelRatio, u.bbox.top - 4 * devicePixelRatio, 1.5 * devicePixelRatio, 9 * devicePixelRatio);
    }
  };
  const flight = clipped((u, p, ctx) => {
    stairs(u, ctx, p.acked.t, (i) => (p.acked.room[i] as number) - (p.acked.to[i] as number), colour("muted"), 1, [5, 3]);
    stairs(u, ctx, p.sent.t, (i) => p.sent.flight[i] as number, colour("down"), 1.2);
    ticks(u, p, ctx);
  });
  const trips = clipped((u, p, ctx) => {
    const { min, max, x, y } = place(u);
    const base = p.way.base_ms;
    if (base !== null) {
      ctx.strokeStyle = colour("flow");
      ctx.lineWidth = 1.2 * devicePixelRatio;
      ctx.setLineDash([5 * devicePixelRatio, 3 * devicePixelRatio]);
      ctx.beginPath();
      ctx.moveTo(u.bbox.left, y(base));
      ctx.lineTo(u.bbox.left + u.bbox.width, y(base));
      ctx.stroke();
      ctx.setLineDash([]);
    }
    const [a, b] = within(p.rtt.t, min, max);
    ctx.fillStyle = colour("ink");
    const r = b - a > FEW ? 1 : 2;
    const size = r * devicePixelRatio;
    // One spot is painted once.
    const height = Math.ceil(u.bbox.height / size) + 2;
    const seen = b - a > FEW ? new Uint8Array((Math.ceil(u.bbox.width / size) + 2) * height) : undefined;
    for (let i = a; i < b; i++) {
      const [px, py] = [x(p.rtt.t[i] as number), y(p.rtt.ms[i] as number)];
      if (seen) {
        const spot = Math.floor((px - u.bbox.left) / size) * height + Math.max(0, Math.floor((py - u.bbox.top) / size));
        if (seen[spot]) continue;
        seen[spot] = 1;
      }
      ctx.fillRect(px - size / 2, py - size / 2, size, size);
    }
    ticks(u, p, ctx);
  });

  const most = (t: Float64Array, values: Float64Array, min: number, max: number): number => {
    const [a, b] = within(t, min, max);
    let top = 0;
    for (let i = a; i < b; i++) if ((values[i] as number) > top) top = values[i] as number;
    return top;
  };
  const above = (top: number): uPlot.Range.MinMax => [0, (top || 1) * 1.08];
  const inSight: ((p: Packets, min: number, max: number) => uPlot.Range.MinMax)[] = [
    (p, min, max) => {
      let low = Infinity;
      let high = -Infinity;
      let room = Infinity;
      const [a, b] = within(p.sent.t, min, max);
      for (let i = a; i < b; i++) {
        low = Math.min(low, p.sent.from[i] as number);
        high = Math.max(high, p.sent.to[i] as number);
      }
      const [c, d] = within(p.acked.t, min, max);
      for (let i = Math.max(0, c - 1); i < d; i++) {
        low = Math.min(low, p.acked.to[i] as number);
        high = Math.max(high, p.acked.to[i] as number);
        room = Math.min(room, p.acked.room[i] as number);
      }
      if (high < low) return [0, 1];
      // Where the receiver's room is far above, its line is not worth the rest of the picture.
      const head = Math.max(high - low, 1);
      if (room > high && room < high + 0.25 * head) high = room;
      return [low - 0.01 * head, high + 0.04 * head];
    },
    (_p, min, max) => {
      count(min, max);
      return above(Math.max(...steps.fresh, ...steps.acked, ...steps.again));
    },
    (p, min, max) => above(most(p.sent.t, p.sent.flight, min, max)),
    (p, min, max) => above(Math.max(most(p.rtt.t, p.rtt.ms, min, max), p.way.base_ms ?? 0)),
  ];

  const say = (t: number | null): void => {
    readout.replaceChildren();
    if (t === null || !shown) {
      readout.textContent = hint();
      return;
    }
    const p = shown;
    const parts: [string, string][] = [["", `${t.toFixed(range[1] - range[0] < 1 ? 6 : 3)} s`]];
    const i = lastUpTo(p.sent.t, t);
    if (i >= 0) {
      parts.push(["sent up to", told(sizes, p.sent.to[i] as number)]);
      parts.push(["in flight", told(sizes, p.sent.flight[i] as number)]);
    }
    const k = lastUpTo(p.acked.t, t);
    if (k >= 0) parts.push(["acknowledged", told(sizes, p.acked.to[k] as number)]);
    const step = Math.floor((t - steps.from) / steps.each);
    const v = steps.acked[step];
    if (v !== undefined) parts.push(["goodput", told(rates, v)]);
    const r = lastUpTo(p.rtt.t, t);
    if (r >= 0) {
      const ms = p.rtt.ms[r] as number;
      parts.push(["round trip", `${digits(ms)} ms`]);
      if (p.way.base_ms !== null) parts.push(["of which waiting", `${digits(Math.max(0, ms - p.way.base_ms))} ms`]);
    }
    const near = (range[1] - range[0]) / 200;
    const j = lastUpTo(p.again.t, t + near);
    if (j >= 0 && t - (p.again.t[j] as number) < near) parts.push(["sent again:", `${CAUSES[p.again.cause[j] as number] ?? ""}${p.again.needless[j] ? ", needless" : ""}`]);
    parts.forEach(([name, value], n) => {
      if (n > 0) readout.append(" · ");
      if (name) readout.append(`${name} `);
      readout.append(element("b", "", value));
    });
  };

  const sync = uPlot.sync("tailback-packets");
  const zoom = (from: number, to: number): void => {
    const [a, b] = shown?.way.span_s ?? range;
    const length = Math.min(Math.max(to - from, 1e-6), b - a);
    const begin = Math.min(Math.max(from, a), b - length);
    if (begin === range[0] && begin + length === range[1]) return;
    range = [begin, begin + length];
    // Each fits its own axis to what is in sight.
    for (const plot of plots.all) plot.setData(ends(), true);
  };
  const labels = ["Bytes", "Throughput", "In flight", "Round trip, ms"];
  const build = (width: number): uPlot[] => {
    const narrow = width < 480;
    const heights = narrow ? [260, 110, 110, 120] : [400, 130, 130, 150];
    const made = areas.map((area, k) => {
      const last = k === areas.length - 1;
      const units = k === 1 ? rates : sizes;
      return new uPlot(
        {
          width,
          height: (heights[k] as number) + (last ? 40 : 0),
          legend: { show: false },
          padding: [8, null, null, null],
          cursor: { sync: { key: sync.key, setSeries: false }, y: false, points: { show: false }, drag: { x: true, y: false, dist: 5, setScale: false } },
          scales: {
            x: { time: false, range: () => range },
            y: { range: () => (shown && inSight[k] ? (inSight[k] as (typeof inSight)[number])(shown, range[0], range[1]) : [0, 1]) },
          },
          axes: [
            last ? axis({ label: "time since the connection began, s", size: 32, values: (_u, s) => s.map((v) => String(Number(v.toFixed(6)))) }) : axis({ values: (_u, s) => s.map(() => ""), size: 8 }),
            axis({
              size: narrow ? 62 : 78,
              space: k === 0 ? 40 : 26,
              values: (_u, splits) => {
                if (k === 3) return splits.map((v) => digits(v));
                const [unit, size] = fitting(units, splits[splits.length - 1] ?? 0);
                const step = ((splits[1] ?? 0) - (splits[0] ?? 0)) / size || 1;
                const places = Math.max(0, -Math.floor(Math.log10(step) + 1e-9));
                return splits.map((v, i) => (i === splits.length - 1 ? `${(v / size).toFixed(places)} ${unit}` : (v / size).toFixed(places)));
              },
            }),
          ],
          series: [{}, { show: true, points: { show: false } }],
          hooks: {
            draw: [[sequence, throughput, flight, trips][k] as (u: uPlot) => void],
            setCursor: k === 0 ? [(u) => say(u.cursor.left === undefined || u.cursor.left < 0 ? null : u.posToVal(u.cursor.left, "x"))] : [],
            setSelect: [(u) => {
              const { left, width: w } = u.select;
              if (w > 0) {
                const [a, b] = [u.posToVal(left, "x"), u.posToVal(left + w, "x")];
                u.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
                zoom(a, b);
              }
            }],
            ready: [(u) => {
              u.over.addEventListener("dblclick", () => shown && zoom(...shown.way.span_s));
              // A page scrolls by its wheel: only with a key does it move the plot.
              u.over.addEventListener("wheel", (event) => {
                if (!event.ctrlKey && !event.shiftKey) return;
                event.preventDefault();
                const length = range[1] - range[0];
                const turned = event.deltaY || event.deltaX;
                if (event.shiftKey) return zoom(range[0] + (Math.sign(turned) * length) / 10, range[1] + (Math.sign(turned) * length) / 10);
                const at = u.posToVal(event.offsetX, "x");
                const factor = turned > 0 ? 1.3 : 1 / 1.3;
                zoom(at - (at - range[0]) * factor, at + (range[1] - at) * factor);
              }, { passive: false });
            }],
          },
        },
        ends(),
        area,
      );
    });
    for (const plot of made) sync.sub(plot);
    return made;
  };

  const explain = (): void => {
    legend.replaceChildren();
    const line = (name: string, text: string): void => {
      const word = element("span", "key-word", text);
      word.style.setProperty("--of", `var(--${name})`);
      legend.append(word);
    };
    line("down", "segments");
    line("flow", "acknowledged");
    line("muted", "receive window");
    if (!shown) return;
    if (shown.sacked.t.length > 0) line("both", "SACK");
    const n = new Array<number>(CAUSES.length).fill(0);
    for (const kind of shown.again.cause) (n[kind] as number) += 1;
    n.forEach((times, kind) => times > 0 && line(["loss", "up", "both", "recovery", "tail", "idle"][kind] as string, `${times} sent again: ${CAUSES[kind]}`));
    if (shown.way.each > 1) legend.append(` Up to ${shown.way.each} packets next to each other are drawn as one.`);
  };

  const choose = async (way: Way): Promise<void> => {
    const unpacked = await unpack(way);
    shown = unpacked;
    range = way.span_s;
    explain();
    if (plots.all.length === 0) plots.again();
    else for (const plot of plots.all) plot.setData(ends(), true);
    say(null);
    figure.dataset["drawn"] = way.name;
  };
  if (ways.length > 1) {
    const select = element("select", "");
    select.setAttribute("aria-label", "Connection");
    ways.forEach((way, i) => {
      const option = element("option", "", way.name);
      option.value = String(i);
      select.append(option);
    });
    select.addEventListener("change", () => void choose(ways[Number(select.value)] as Way));
    tools.append(select);
  }
  const move = (text: string, title: string, by: (length: number) => [number, number]): void => {
    const button = element("button", "", text);
    button.type = "button";
    button.title = title;
    button.setAttribute("aria-label", title);
    button.addEventListener("click", () => zoom(...by(range[1] - range[0])));
    tools.append(button);
  };
  tools.append(element("span", "push"));
  move("◀", "Earlier", (l) => [range[0] - l / 2, range[1] - l / 2]);
  move("▶", "Later", (l) => [range[0] + l / 2, range[1] + l / 2]);
  move("+", "Closer", (l) => [range[0] + l / 4, range[1] - l / 4]);
  move("−", "Farther", (l) => [range[0] - l / 2, range[1] + l / 2]);
  move("All", "All of it", () => shown?.way.span_s ?? range);
  box.append(tools, legend);
  areas.forEach((area, k) => {
    box.append(element("p", "plot-name", labels[k]), area);
    movable(area, labels[k] as string, () => plots.all[k]);
  });
  box.append(readout);
  const plots: Plots = new Plots(box, build);
  void choose(first);
}
