// Film of a simulation's queue: packets that wait, the windows of the transfers, drops and marks, at any speed.
import { byId, digits, element } from "./dom";

interface Queue {
  name: string;
  packets: number[];
  kb: number[];
  wait_ms: (number | null)[];
  drops: number[];
  marks: number[];
}
interface Flow {
  name: string;
  window_kb: (number | null)[];
}
interface Film {
  /** Length, s. */
  seconds: number;
  /** Number of frames, evenly over the length. */
  frames: number;
  queues: Queue[];
  flows: Flow[];
}

const SVG = "http://www.w3.org/2000/svg";
const [WIDTH, HEIGHT] = [900, 330];
/** Places of packets in the picture, and rows of them. */
const [PLACES, ROWS] = [60, 3];
/** Seconds for which a drop or a mark glows. */
const GLOW_S = 0.4;
/** Length of the whole film at the default speed, s. */
const FIT_S = 40;

function drawn(parent: Element, name: string, attributes: Record<string, string | number>, text = ""): SVGElement {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, String(value));
  made.textContent = text;
  parent.append(made);
  return made;
}

/** Most of some numbers, at least the smallest that can be divided by. */
const most = (values: (number | null)[]): number => values.reduce<number>((top, v) => Math.max(top, v ?? 0), 1e-9);

class Picture {
  private readonly places: SVGElement[] = [];
  private readonly bars: SVGElement[] = [];
  private readonly lost: SVGElement;
  private readonly marked: SVGElement;
  private readonly cursor: SVGElement;
  /** Packets of one place. */
  private readonly each: number;

  constructor(readonly svg: SVGElement, private readonly film: Film, private readonly queue: Queue) {
    this.each = Math.max(1, Math.ceil(most(queue.packets) / PLACES));
    svg.replaceChildren();
    const top = most(film.flows.flatMap((f) => f.window_kb));
    drawn(svg, "text", { x: 10, y: 20, class: "head" }, "Windows of the transfers");
    film.flows.forEach((f, i) => {
      const y = 34 + i * 26;
      drawn(svg, "text", { x: 10, y: y + 13 }, f.name.length > 16 ? `${f.name.slice(0, 15)}…` : f.name);
      this.bars.push(drawn(svg, "rect", { x: 140, y, height: 17, width: 0, rx: 3, class: `bar s${i % 6}`, "data-top": top }));
    });
    drawn(svg, "text", { x: 360, y: 20, class: "head" }, this.each > 1 ? `Queue: a box is ${this.each} packets` : "Queue: a box is a packet");
    const columns = PLACES / ROWS;
    for (let i = 0; i < PLACES; i++) {
      // The packet that leaves next stands at the right, beside the link.
      const [column, row] = [columns - 1 - Math.floor(i / ROWS), i % ROWS];
      this.places.push(drawn(svg, "rect", { x: 360 + column * 19, y: 40 + row * 26, width: 16, height: 22, rx: 3, class: "place" }));
    }
    drawn(svg, "path", { d: "M750 79 h120 m-12 -8 l12 8 l-12 8", class: "link" });
    drawn(svg, "text", { x: 760, y: 60 }, "the link");
    this.lost = drawn(svg, "text", { x: 360, y: 144, class: "lost" }, "dropped");
    this.marked = drawn(svg, "text", { x: 470, y: 144, class: "marked" }, "marked");
    drawn(svg, "text", { x: 10, y: 214, class: "head" }, `Wait, up to ${digits(most(queue.wait_ms))} ms`);
    drawn(svg, "path", { d: this.course(), class: "course" });
    drawn(svg, "line", { x1: 10, x2: WIDTH - 10, y1: HEIGHT - 10, y2: HEIGHT - 10, class: "base" });
    this.cursor = drawn(svg, "line", { y1: 222, y2: HEIGHT - 10, class: "cursor" });
  }

  private x(frame: number): number {
    return 10 + (frame / Math.max(1, this.film.frames - 1)) * (WIDTH - 20);
  }

  /** Line of the waits, interrupted where no packet left. */
  private course(): string {
    const top = most(this.queue.wait_ms);
    let pen = "M";
    return this.queue.wait_ms
      .map((ms, i) => {
        if (ms === null) return (pen = "M"), "";
        const point = `${pen}${this.x(i).toFixed(1)} ${(HEIGHT - 10 - (ms / top) * 98).toFixed(1)}`;
        pen = "L";
        return point;
      })
      .join("");
  }

  show(frame: number): void {
    const { packets, drops, marks } = this.queue;
    const full = Math.ceil((packets[frame] ?? 0) / this.each);
    this.places.forEach((p, i) => p.setAttribute("class", i < full ? "place full" : "place"));
    this.film.flows.forEach((f, i) => {
      const bar = this.bars[i];
      const top = Number(bar?.getAttribute("data-top"));
      bar?.setAttribute("width", (((f.window_kb[frame] ?? 0) / top) * 190).toFixed(1));
    });
    const back = Math.max(0, frame - Math.ceil((GLOW_S / this.film.seconds) * this.film.frames));
    const grown = (counts: number[]): boolean => (counts[frame] ?? 0) > (counts[back] ?? 0);
    this.lost.setAttribute("opacity", grown(drops) ? "1" : "0.15");
    this.marked.setAttribute("opacity", grown(marks) ? "1" : "0.15");
    for (const end of ["x1", "x2"]) this.cursor.setAttribute(end, this.x(frame).toFixed(1));
  }

  /** The frame in words. */
  says(frame: number): string {
    const { packets, kb, wait_ms, drops, marks } = this.queue;
    const at = (frame / Math.max(1, this.film.frames - 1)) * this.film.seconds;
    const wait = wait_ms[frame] ?? null;
    const waited = wait === null ? "no packet left" : `the last one to leave waited ${digits(wait)} ms`;
    return `At ${at.toFixed(2)} s: ${packets[frame] ?? 0} packets (${digits(kb[frame] ?? 0)} kB) wait, ${waited}. So far ${drops[frame] ?? 0} dropped, ${marks[frame] ?? 0} marked.`;
  }
}

function start(film: Film, box: HTMLElement): void {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${WIDTH} ${HEIGHT}`);
  svg.setAttribute("class", "film");
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", "The queue at the time below");
  const says = element("p", "evidence");
  const button = element("button", "", "Play");
  const slider = element("input", "");
  slider.type = "range";
  slider.max = String(film.frames - 1);
  slider.value = "0";
  slider.setAttribute("aria-label", "Time");
  const speed = element("select", "");
  speed.setAttribute("aria-label", "Speed");
  const fit = film.seconds / FIT_S;
  for (const [name, factor] of [["whole film in 40 s", fit], ["a quarter of that", fit / 4], ["as it was", 1], ["a tenth of it", 0.1]] as [string, number][]) {
    const option = element("option", "", name);
    option.value = String(factor);
    speed.append(option);
  }
  const which = element("select", "");
  which.setAttribute("aria-label", "Queue");
  film.queues.forEach((q, i) => {
    const option = element("option", "", q.name);
    option.value = String(i);
    which.append(option);
  });
  which.hidden = film.queues.length < 2;
  const controls = element("p", "controls");
  controls.append(button, slider, speed, which);
  box.replaceChildren(svg, controls, says);

  let picture: Picture;
  let [at, playing, last] = [0, false, 0];
  const show = (): void => {
    const frame = Math.min(film.frames - 1, Math.floor(at));
    picture.show(frame);
    says.textContent = picture.says(frame);
    slider.value = String(frame);
  };
  const choose = (): void => {
    const queue = film.queues[Number(which.value)];
    if (queue) picture = new Picture(svg, film, queue);
    show();
  };
  const step = (now: number): void => {
    if (!playing) return;
    at += (((now - last) / 1000) * Number(speed.value) * film.frames) / film.seconds;
    last = now;
    if (at >= film.frames - 1) [at, playing] = [film.frames - 1, false];
    button.textContent = playing ? "Pause" : "Play";
    show();
    requestAnimationFrame(step);
  };
  button.addEventListener("click", () => {
    playing = !playing;
    if (playing && at >= film.frames - 1) at = 0;
    button.textContent = playing ? "Pause" : "Play";
    last = performance.now();
    requestAnimationFrame(step);
  });
  slider.addEventListener("input", () => {
    at = Number(slider.value);
    show();
  });
  which.addEventListener("change", choose);
  choose();
}

const [data, box] = [byId("film-data"), byId("film")];
if (data && box) start(JSON.parse(data.textContent ?? "") as Film, box);
