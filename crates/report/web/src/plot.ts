// What all live plots share.
import uPlot from "uplot";
import { digits, element } from "./dom";
import type { PageMoment } from "./schema";

export const FONT = '12px system-ui, -apple-system, "Segoe UI", Roboto, Arial, sans-serif';

export const colour = (name: string): string => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();

/** A colour of the page with this opacity. */
export function tint(name: string, opacity: number): string {
  const hex = colour(name).replace(/^#(.)(.)(.)$/, "#$1$1$2$2$3$3");
  return `${hex}${Math.round(opacity * 255).toString(16).padStart(2, "0")}`;
}

/** Index of the last value that is at most `x` in a rising list; -1 where there is none. */
export function lastUpTo(xs: ArrayLike<number>, x: number): number {
  let low = 0;
  let high = xs.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if ((xs[middle] as number) <= x) low = middle + 1;
    else high = middle;
  }
  return low - 1;
}

/** Index of the value nearest to `x` in a rising list; -1 where it is empty. */
export function nearest(xs: number[], x: number): number {
  const before = lastUpTo(xs, x);
  const [a, b] = [xs[before], xs[before + 1]];
  return b !== undefined && (a === undefined || b - x < x - a) ? before + 1 : before;
}

/** 1, 2 and 5 of each power of ten within the range, or even round steps where it is too narrow for three of those. */
export function logMarks(low: number, high: number): number[] {
  const marks: number[] = [];
  for (let e = Math.floor(Math.log10(low)); e <= Math.ceil(Math.log10(high)); e++) {
    for (const m of [1, 2, 5]) marks.push(Number((m * 10 ** e).toPrecision(1)));
  }
  const inside = marks.filter((v) => v >= low && v <= high);
  if (inside.length >= 3 || high <= low) return inside;
  const power = 10 ** Math.floor(Math.log10((high - low) / 4));
  const step = [1, 2, 5, 10].map((m) => m * power).find((s) => s >= (high - low) / 6) as number;
  const even: number[] = [];
  for (let i = Math.ceil(low / step); i * step <= high; i++) even.push(Number((i * step).toPrecision(12)));
  return even;
}

export function axis(over: Partial<uPlot.Axis>): uPlot.Axis {
  const rule = { stroke: colour("rule"), width: 1 };
  return { stroke: colour("muted"), font: FONT, labelFont: FONT, labelSize: 20, grid: rule, ticks: { ...rule, size: 5 }, values: (_, splits) => splits.map((v) => (v == null ? "" : digits(v))), ...over };
}

const DATE = "\n{YYYY}-{MM}-{DD}";
const DAY = "\n{MM}-{DD}";
/** Marks of civil time by their distance in seconds, in the order of ISO 8601: a new day or year is named below. */
const DATES = [
  [31_536_000, "{YYYY}", null, null, null, null, null, null, 1],
  [2_419_200, "{YYYY}-{MM}", null, null, null, null, null, null, 1],
  [86_400, "{MM}-{DD}", "\n{YYYY}", null, null, null, null, null, 1],
  [3_600, "{HH}:{mm}", DATE, null, DAY, null, null, null, 1],
  [60, "{HH}:{mm}", DATE, null, DAY, null, null, null, 1],
  [1, "{HH}:{mm}:{ss}", DATE, null, DAY, null, null, null, 1],
  [0.001, "{ss}.{fff}", "\n{HH}:{mm}", null, null, null, "\n{HH}:{mm}", null, 1],
];

/** An axis of dates: without the marks of the other, which are numbers. */
export function dates(): uPlot.Axis {
  return axis({ size: 44, values: DATES as unknown as uPlot.Axis.Values });
}

export const logarithmic: Partial<uPlot.Axis> = {
  splits: (_u, _axis, min, max) => logMarks(min, max),
  filter: (_u, splits) => splits,
};

/** Rows of texts of marked moments. */
const MOMENT_ROWS = 4;

/** Draws marked moments as lines over the plot; with `texts`, each has its text beside it where there is room. */
export function drawMoments(u: uPlot, moments: PageMoment[], texts: boolean): void {
  const { ctx, bbox } = u;
  const px = devicePixelRatio;
  const ends: number[] = Array.from({ length: MOMENT_ROWS }, () => -Infinity);
  ctx.save();
  ctx.strokeStyle = colour("ink");
  ctx.fillStyle = colour("ink");
  ctx.lineWidth = px;
  ctx.font = FONT.replace("12px", `${12 * px}px`);
  ctx.textBaseline = "top";
  for (const m of moments) {
    const x = u.valToPos(m.t_s, "x", true);
    if (x < bbox.left || x > bbox.left + bbox.width) continue;
    ctx.setLineDash([4 * px, 3 * px]);
    ctx.beginPath();
    ctx.moveTo(x, bbox.top);
    ctx.lineTo(x, bbox.top + bbox.height);
    ctx.stroke();
    if (!texts) continue;
    const width = ctx.measureText(m.text).width + 8 * px;
    const left = x + width > bbox.left + bbox.width;
    const [from, to] = left ? [x - width, x] : [x, x + width];
    const row = ends.findIndex((end) => end <= from);
    if (row < 0) continue;
    ends[row] = to;
    ctx.textAlign = left ? "right" : "left";
    ctx.fillText(m.text, left ? x - 4 * px : x + 4 * px, bbox.top + (2 + 15 * row) * px);
  }
  ctx.restore();
}

/** Text of the marked moment within five pixels of an instant. */
export function momentAt(u: uPlot | undefined, moments: PageMoment[], t: number): string | undefined {
  if (!u) return undefined;
  const away = (m: PageMoment): number => Math.abs(u.valToPos(m.t_s, "x") - u.valToPos(t, "x"));
  return moments.find((m) => away(m) <= 5)?.text;
}

/** A button that is pressed or not; `act` is told which. */
export function toggle(text: string, pressed: boolean, act: (pressed: boolean) => void, swatch?: string): HTMLButtonElement {
  const button = element("button", "");
  button.type = "button";
  if (swatch) {
    const mark = element("span", "swatch");
    mark.style.color = `var(--${swatch})`;
    button.append(mark);
  }
  button.append(text);
  button.setAttribute("aria-pressed", String(pressed));
  button.addEventListener("click", () => {
    const now = button.getAttribute("aria-pressed") !== "true";
    button.setAttribute("aria-pressed", String(now));
    act(now);
  });
  return button;
}

/** Everything that is drawn is drawn again when its width or the colours change. */
export class Plots {
  private made: uPlot[] = [];
  private width = 0;
  constructor(private readonly within: HTMLElement, private readonly build: (width: number) => uPlot[]) {
    new ResizeObserver(() => {
      const width = this.within.clientWidth;
      if (width > 0 && width !== this.width) {
        this.width = width;
        if (this.made.length === 0) this.again();
        for (const plot of this.made) plot.setSize({ width, height: plot.height });
      }
    }).observe(within);
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.again());
  }
  again(): void {
    for (const plot of this.made) plot.destroy();
    this.made = this.width > 0 ? this.build(this.width) : [];
  }
  get all(): readonly uPlot[] {
    return this.made;
  }
}

export const hint = (): string => (matchMedia("(hover: hover)").matches ? "Point at the plot to read values." : "Tap the plot to read values.");

/** Arrow keys move the cursor, so that every value can be read without a pointer. */
export function movable(box: HTMLElement, what: string, plot: () => uPlot | undefined): void {
  box.tabIndex = 0;
  box.setAttribute("role", "img");
  box.setAttribute("aria-label", `${what}. The arrow keys move the cursor.`);
  box.addEventListener("keydown", (event) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    const u = plot();
    if (step === undefined || !u) return;
    event.preventDefault();
    const width = u.bbox.width / devicePixelRatio;
    const from = u.cursor.left !== undefined && u.cursor.left >= 0 ? u.cursor.left : width / 2;
    const left = Math.min(width, Math.max(0, from + step * (event.shiftKey ? 20 : 2)));
    u.setCursor({ left, top: u.cursor.top !== undefined && u.cursor.top >= 0 ? u.cursor.top : 20 });
  });
}

export function live(figure: HTMLElement): HTMLElement {
  const box = figure.querySelector<HTMLElement>(".live");
  if (!box) throw new Error(`the figure ${figure.id} has no place for its plot`);
  box.hidden = false;
  figure.classList.add("is-live");
  return box;
}
