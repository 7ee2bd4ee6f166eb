// Second script of a page that its monitor serves: the state of the targets, the exchange of the plots for newer ones, and
// the questions of the first script.
// Only that page has it: the page in a file cannot ask anything of anybody.
import { EXCHANGED, QUESTION, type Question, byId, digits, element } from "./dom";
import { type Line, lines } from "./tree";

interface Second {
  at_s: number;
  mean_ms: number | null;
  max_ms: number | null;
  lost: number;
}
interface Target {
  name: string;
  group: string | null;
  rtt_ms: number | null;
  ipdv_ms: number | null;
  sent: number;
  lost: number;
  outage_s: number | null;
  trouble: string | null;
  seconds: Second[];
}
interface State {
  elapsed_s: number;
  page: number;
  interface: string | null;
  down_bps: number | null;
  up_bps: number | null;
  targets: Target[];
}

const EVERY_MS = 1000;
/** Seconds shown in the small pictures. */
const SPAN = 120;
/** Time without a touch after which the plots may be exchanged: nobody's zoom is taken away. */
const REST_MS = 60_000;
const [WIDTH, HEIGHT] = [240, 28];
const SVG = "http://www.w3.org/2000/svg";

const ms = (value: number | null): string => (value === null ? "–" : `${digits(value)} ms`);
const rate = (bps: number | null): string => {
  if (bps === null) return "–";
  const [unit, size] = ([["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]] as [string, number][]).find(([, s]) => bps >= s) ?? ["bit/s", 1];
  return `${digits(bps / size)} ${unit}`;
};

/** Length of time in its two largest units. */
function lasted(seconds: number): string {
  const units: [string, number][] = [["d", 86_400], ["h", 3_600], ["min", 60], ["s", 1]];
  const first = units.findIndex(([, size]) => seconds >= size);
  let rest = Math.floor(seconds);
  const parts = units.slice(first < 0 ? 3 : first).slice(0, 2).map(([unit, size]) => {
    const count = Math.floor(rest / size);
    rest -= count * size;
    return `${count} ${unit}`;
  });
  return parts.join(" ");
}

function drawn(name: string, attributes: Record<string, string | number>): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  return made;
}

/**
 * Largest round trip of each of the last seconds as a bar, in red those with losses and those of the present outage. A second
 * without an answer is none of these by itself: a target may be probed more rarely.
 */
function picture(t: Target): SVGElement {
  const top = Math.max(1e-9, ...t.seconds.map((s) => s.max_ms ?? 0));
  const label = `Largest round trip of each second, up to ${digits(top)} ms; seconds with losses and of an outage are red`;
  const silent = (t.seconds.at(-1)?.at_s ?? 0) - (t.outage_s ?? -Infinity);
  const svg = drawn("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, width: WIDTH, height: HEIGHT, role: "img", "aria-label": label });
  const step = WIDTH / SPAN;
  t.seconds.forEach((s, i) => {
    const bad = s.lost > 0 || (s.max_ms === null && s.at_s > silent);
    if (!bad && s.max_ms === null) return;
    const height = s.max_ms === null ? HEIGHT : Math.max(1, (s.max_ms / top) * HEIGHT);
    const x = (SPAN - t.seconds.length + i) * step;
    const bar = drawn("rect", { x, y: HEIGHT - height, width: step, height, class: bad ? "lossy" : "fine" });
    svg.append(bar);
  });
  return svg;
}

const lost = (lost: number, sent: number): string => `${lost} of ${sent}${sent > 0 ? ` (${digits((100 * lost) / sent)} %)` : ""}`;
const isWell = (t: Target): boolean => t.outage_s === null && t.trouble === null;

/** First cell of a line, indented by its place in the tree. */
function heading(depth: number, name: string): HTMLElement {
  const head = element("th", "", name);
  head.scope = "row";
  head.style.paddingLeft = `${depth * 1.2}rem`;
  return head;
}

/** A group: how many of its targets answer, the longest round trip, and all losses. */
function group(line: Line<Target>): HTMLElement {
  const made = element("tr", "group");
  const all = line.targets;
  const well = all.filter(isWell).length;
  const longest = all.reduce<number | null>((most, t) => (t.rtt_ms === null ? most : Math.max(most ?? 0, t.rtt_ms)), null);
  const sums = all.reduce(([lost, sent], t) => [lost + t.lost, sent + t.sent] as [number, number], [0, 0] as [number, number]);
  const cells = [longest === null ? "–" : `≤ ${ms(longest)}`, "", lost(...sums)].map((text) => element("td", "", text));
  const state = element("td", well < all.length ? "words bad" : "words", `${well} of ${all.length} answer`);
  made.append(heading(line.depth, line.group ?? ""), state, element("td", ""), ...cells);
  return made;
}

function row(t: Target, depth: number): HTMLElement {
  const made = element("tr", "");
  const head = heading(depth, t.name);
  const state = t.outage_s !== null ? `no answer for ${Math.floor(t.outage_s)} s` : (t.trouble ?? "answers");
  const cells = [ms(t.rtt_ms), ms(t.ipdv_ms), lost(t.lost, t.sent)].map((text) => element("td", "", text));
  const plot = element("td", "");
  plot.append(picture(t));
  made.append(head, element("td", t.outage_s !== null || t.trouble ? "words bad" : "words", state), plot, ...cells);
  return made;
}

function table(state: State): HTMLElement {
  const made = element("table", "");
  const head = element("tr", "");
  for (const name of ["Target", "State", "Last two minutes", "RTT", "IPDV", "Lost"]) {
    const cell = element("th", name === "State" ? "words" : "", name);
    cell.scope = "col";
    head.append(cell);
  }
  const [top, body] = [element("thead", ""), element("tbody", "")];
  top.append(head);
  const one = (line: Line<Target>): HTMLElement[] => (line.group === null ? line.targets.map((t) => row(t, line.depth)) : [group(line)]);
  body.append(...lines(state.targets).flatMap(one));
  made.append(top, body);
  return made;
}

/** Keeps the state fresh, and tells the script of the page when newer plots have come. */
function follow(): void {
  const box = byId("live");
  if (!box) return;
  const says = element("p", "evidence");
  const scroll = element("div", "scroll");
  scroll.tabIndex = 0;
  scroll.setAttribute("role", "group");
  scroll.setAttribute("aria-label", "State of the targets");
  box.replaceChildren(...[...box.children].filter((c) => c.tagName === "H2"), scroll, says);
  let page: number | null = null;
  let touched = -Infinity;
  for (const event of ["pointerdown", "keydown"]) document.addEventListener(event, () => (touched = performance.now()));

  const exchange = async (number: number): Promise<void> => {
    const text = await (await fetch("./")).text();
    const fresh = new DOMParser().parseFromString(text, "text/html");
    const main = document.querySelector("main");
    const theirs = fresh.querySelector("main");
    const place = fresh.getElementById("live");
    if (!main || !theirs || !place) return;
    place.replaceWith(box);
    main.replaceChildren(...theirs.children);
    const [old, data] = [byId("curves"), fresh.getElementById("curves")];
    if (old && data) old.textContent = data.textContent;
    else if (data) document.body.append(data);
    document.title = fresh.title;
    page = number;
    document.dispatchEvent(new Event(EXCHANGED));
  };
  const look = async (): Promise<void> => {
    try {
      const answer = await fetch("live.json");
      if (answer.ok) {
        const state = (await answer.json()) as State;
        scroll.replaceChildren(table(state));
        const traffic = state.interface === null ? "" : ` · ${state.interface}: ${rate(state.down_bps)} down, ${rate(state.up_bps)} up`;
        says.textContent = `The monitor has run for ${lasted(state.elapsed_s)}${traffic}. Largest round trip of each second; red: losses, or an outage.`;
        page ??= document.getElementById("curves") ? state.page : 0;
        if (state.page > page && performance.now() - touched > REST_MS) await exchange(state.page);
      } else if (answer.status === 401) says.textContent = "The monitor asks for its token: open the address that it printed.";
    } catch {
      says.textContent = "The monitor does not answer. What is shown is the last state that it told.";
    }
    setTimeout(look, document.hidden ? 10 * EVERY_MS : EVERY_MS);
  };
  void look();
}

document.addEventListener(QUESTION, (event) => {
  const { address, answer, fail } = (event as CustomEvent<Question>).detail;
  fetch(address).then((got) => (got.ok ? got.json() : Promise.reject(new Error(String(got.status))))).then(answer, fail);
});
follow();
