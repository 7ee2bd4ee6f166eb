// Script of the page with the live values of a fleet's point: each probe of the last minute, as its hub hears of it.
import { byId, digits, element } from "./dom";

interface Probe {
  run: string;
  target: string;
  seq: number;
  sent_ms: number;
  rtt_ms: number | null;
}
interface Since {
  connected: boolean;
  next: number;
  probes: Probe[];
}
/** Probes of one target in one run, by number. */
interface Row {
  target: string;
  run: string;
  probes: Map<number, Probe>;
  newest: number;
}
interface Shown {
  box: HTMLElement;
  says: HTMLElement;
  canvas: HTMLCanvasElement;
}

const EVERY_MS = 250;
const SPAN_MS = 60_000;
/** Time after which a number without a row counts as unanswered. A row comes with its answer, and is then written within half a second. */
const OPEN_MS = 2_000;
/** Time after the page was opened within which the first probes come from the point. */
const FIRST_MS = 6_000;
const HEIGHT = 130;

const rank = (sorted: number[], p: number): number => sorted[Math.max(0, Math.ceil(p * sorted.length) - 1)] as number;
const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

function take(rows: Map<string, Row>, probes: Probe[]): void {
  for (const p of probes) {
    const key = `${p.target}\n${p.run}`;
    let row = rows.get(key);
    if (!row) rows.set(key, (row = { target: p.target, run: p.run, probes: new Map(), newest: p.sent_ms }));
    row.probes.set(p.seq, p);
    row.newest = Math.max(row.newest, p.sent_ms);
  }
}

/** Forgets what is older than the last minute of the point's newest probe. */
function forget(rows: Map<string, Row>): number {
  const newest = Math.max(...[...rows.values()].map((r) => r.newest));
  for (const [key, row] of rows) {
    for (const [seq, p] of row.probes) if (p.sent_ms < newest - SPAN_MS) row.probes.delete(seq);
    if (row.probes.size === 0) rows.delete(key);
  }
  return newest;
}

/** Answered probes of a row, and the times of those without an answer. */
function fates(row: Row, newest: number): { answered: Probe[]; silent: number[] } {
  const all = [...row.probes.values()].sort((a, b) => a.seq - b.seq);
  const answered = all.filter((p) => p.rtt_ms !== null);
  const silent = all.filter((p) => p.rtt_ms === null).map((p) => p.sent_ms);
  all.slice(1).forEach((p, i) => {
    const before = all[i] as Probe;
    const gap = p.seq - before.seq;
    for (let k = 1; k < gap; k++) {
      const at = before.sent_ms + ((p.sent_ms - before.sent_ms) * k) / gap;
      if (at < newest - OPEN_MS) silent.push(at);
    }
  });
  return { answered, silent };
}

function draw(canvas: HTMLCanvasElement, answered: Probe[], silent: number[], newest: number): void {
  const width = canvas.clientWidth;
  const scale = devicePixelRatio;
  canvas.width = width * scale;
  canvas.height = HEIGHT * scale;
  const c = canvas.getContext("2d");
  if (!c || width === 0) return;
  c.scale(scale, scale);
  const [left, bottom] = [64, HEIGHT - 20];
  const top = Math.max(0.1, ...answered.map((p) => p.rtt_ms as number)) * 1.1;
  const x = (t: number): number => left + (width - left - 4) * (1 - (newest - t) / SPAN_MS);
  const y = (ms: number): number => bottom - ((bottom - 8) * ms) / top;
  c.font = "12px system-ui, sans-serif";
  c.fillStyle = colour("muted");
  c.strokeStyle = colour("rule");
  for (const share of [0, 0.5, 1]) {
    const at = y(top * share);
    c.beginPath();
    c.moveTo(left, at);
    c.lineTo(width, at);
    c.stroke();
    c.textAlign = "right";
    c.textBaseline = "middle";
    if (answered.length > 0) c.fillText(share === 0 ? "0 ms" : `${digits(top * share)} ms`, left - 6, at);
  }
  c.textBaseline = "alphabetic";
  for (let s = 0; s <= SPAN_MS; s += width < 500 ? 20_000 : 10_000) {
    c.textAlign = s === 0 ? "right" : "center";
    if (s < SPAN_MS) c.fillText(s === 0 ? "newest" : `−${s / 1000} s`, x(newest - s), HEIGHT - 5);
  }
  c.fillStyle = colour("bad");
  for (const t of silent) c.fillRect(x(t) - 1, 8, 2, bottom - 8);
  c.fillStyle = colour("down");
  for (const p of answered) c.fillRect(x(p.sent_ms) - 1.25, y(p.rtt_ms as number) - 1.25, 2.5, 2.5);
}

function figures(answered: Probe[], silent: number[]): string {
  const sent = answered.length + silent.length;
  const unanswered = `unanswered: ${silent.length} of ${sent}`;
  const last = answered.at(-1);
  if (!last) return unanswered;
  const rtts = answered.map((p) => p.rtt_ms as number).sort((a, b) => a - b);
  const [median, high, most] = [rank(rtts, 0.5), rank(rtts, 0.95), rtts.at(-1) as number];
  return `RTT ${digits(last.rtt_ms as number)} ms · last minute: median ${digits(median)}, 95 % ${digits(high)}, largest ${digits(most)} ms · ${unanswered}`;
}

function follow(): void {
  const box = byId("tail");
  const point = box?.dataset.point;
  if (!box || !point) return;
  const says = element("p", "evidence", "Waiting for the point …");
  const list = element("div", "");
  box.replaceChildren(says, list);
  const rows = new Map<string, Row>();
  const shown = new Map<string, Shown>();
  let next = 0;

  const show = (newest: number): void => {
    const targets = [...new Set([...rows.values()].map((r) => r.target))].sort();
    for (const [name, { box }] of shown) {
      if (targets.includes(name)) continue;
      box.remove();
      shown.delete(name);
    }
    for (const name of targets) {
      const of = [...rows.values()].filter((r) => r.target === name).map((r) => fates(r, newest));
      const answered = of.flatMap((f) => f.answered).sort((a, b) => a.sent_ms - b.sent_ms);
      const silent = of.flatMap((f) => f.silent);
      let one = shown.get(name);
      if (!one) {
        one = { box: element("section", ""), says: element("p", "evidence"), canvas: element("canvas", "") };
        one.canvas.style.cssText = `width:100%;height:${HEIGHT}px`;
        one.canvas.setAttribute("role", "img");
        one.canvas.setAttribute("aria-label", `Round-trip times to ${name} over the last minute; the figures stand above`);
        one.box.append(element("h2", "", name), one.says, one.canvas);
        shown.set(name, one);
        list.append(one.box);
      }
      one.says.textContent = figures(answered, silent);
      draw(one.canvas, answered, silent, newest);
    }
  };
  const look = async (): Promise<void> => {
    try {
      const answer = await fetch(`/live/${point}/${next}`);
      if (answer.ok) {
        const since = (await answer.json()) as Since;
        next = since.next;
        take(rows, since.probes);
        if (rows.size > 0) show(forget(rows));
        if (!since.connected) says.textContent = "The point is not connected to the hub. Its values come with its recordings; they are live unless its plan says push = false.";
        else if (rows.size === 0 && performance.now() < FIRST_MS) says.textContent = "The point is connected. Its probes come within seconds.";
        else if (rows.size === 0) says.textContent = "The point is connected. None of its measurements records a probe now.";
        else says.textContent = "Each probe of the last minute, about a second after it was sent. Red: no answer, or none yet.";
      } else if (answer.status === 401) says.textContent = "The hub asks for a token: open the address that it printed.";
      else says.textContent = "The hub shows no live values of this point. Too many points may be looked at.";
    } catch {
      says.textContent = "The hub does not answer. What is shown is the last that it told.";
    }
    setTimeout(look, document.hidden ? 20 * EVERY_MS : EVERY_MS);
  };
  void look();
}
follow();
