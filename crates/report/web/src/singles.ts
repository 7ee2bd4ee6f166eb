// Single probes of a recording that is too long to hold them in its page: the monitor that serves the page is asked for those
// of the time that is looked at; of a file, the line below the plot has the command that draws them.
import uPlot from "uplot";
import { QUESTION, type Question, digits, element } from "./dom";
import type { Line, PageCurves, PageProbes, RateBins } from "./schema";

/** Single probes between two instants. */
export interface Singles {
  from: number;
  to: number;
  probes: Line;
  lost_s: number[];
  bins: RateBins;
}

/** Largest number of probes that are drawn one by one (`MOST_POINTS` in `report/src/plots/material.rs`). */
const MOST = 12_000;
/** Wait after the last movement, and between two questions, ms. */
const [REST_MS, AGAIN_MS] = [300, 200];
/** Share of the width that is read beyond each end, so that small movements need no question. */
const BESIDE = 0.25;

const length = (s: number): string => {
  const [unit, size] = ([["days", 86_400], ["hours", 3_600], ["minutes", 60]] as [string, number][]).find(([, each]) => s >= 2 * each) ?? ["seconds", 1];
  return `${digits(s / size)} ${unit}`;
};

const asked = (address: string): Promise<unknown> =>
  new Promise((answer, fail) => {
    document.dispatchEvent(new CustomEvent<Question>(QUESTION, { detail: { address, answer, fail } }));
  });

export interface Closer {
  /** Line below the plot. */
  says: HTMLElement;
  /** Takes the range that is looked at, true if its single probes are drawn, and the number of its probes. */
  look(range: [number, number], drawn: boolean, sent: number): void;
}

/** Finds the single probes of what is looked at, and hands them to `show`. */
export function singles(c: PageCurves, zoned: (t: number) => Date, range: () => [number, number], show: (found: Singles) => void): Closer {
  const says = element("p", "evidence single");
  says.setAttribute("aria-live", "polite");
  let timer: ReturnType<typeof setTimeout> | undefined;
  let latest = 0;
  const start = c.from_s ?? 0;

  const ask = async (from: number, to: number): Promise<void> => {
    const mine = ++latest;
    const [a, b] = [Math.floor(from * 1e3), Math.ceil(to * 1e3)];
    const current = (): boolean => mine === latest && says.isConnected;
    try {
      for (;;) {
        const found = (await asked(`${c.single}${a}/${b}`)) as PageProbes | null;
        if (!current()) return;
        if (found?.reason) {
          says.textContent = `No single probes: ${found.reason}.`;
          return;
        }
        if (found) {
          const at = (times: number[]): number[] => times.map((t) => t + a / 1e3);
          const lost = found.lost_s.length;
          const count = found.probes.ms.filter((v) => v !== null).length + lost;
          says.textContent = `Each probe is drawn: ${count} from ${moment(a / 1e3)} to ${moment(b / 1e3)}, ${lost} of them lost.`;
          show({ from: a / 1e3, to: b / 1e3, probes: { t_s: at(found.probes.t_s), ms: found.probes.ms }, lost_s: at(found.lost_s), bins: found.bins });
          return;
        }
        await new Promise((done) => setTimeout(done, AGAIN_MS));
        if (!current()) return;
      }
    } catch {
      if (current()) says.textContent = "The monitor does not answer: single probes of this time cannot be drawn.";
    }
  };
  const moment = (t: number): string => uPlot.fmtDate("{YYYY}-{MM}-{DD} {HH}:{mm}:{ss}")(zoned(t));

  const look: Closer["look"] = ([from, to], drawn, sent) => {
    if (drawn) return;
    clearTimeout(timer);
    latest++;
    if (sent > MOST) {
      const enough = ((to - from) * MOST) / sent;
      says.textContent = `Columns of many probes. Zoom in to ${length(enough)} or less ${c.single ? "to see each probe" : "for the command that draws each probe"}.`;
      return;
    }
    if (sent === 0) {
      says.textContent = "";
      return;
    }
    if (!c.single) {
      const utc = (t: number): string => `${new Date(t * 1e3).toISOString().slice(0, 19)}Z`;
      const command = `tailback report RECORDING --from ${utc(from)} --to ${utc(Math.ceil(to))} -o close-up.html`;
      says.replaceChildren("Draw each probe of this time: ", element("code", "", command));
      return;
    }
    says.textContent = "Reading the single probes of this time …";
    timer = setTimeout(() => {
      const [a, b] = range();
      const more = Math.min(BESIDE * (b - a), Math.max(0, ((0.95 * MOST) / sent - 1) / 2) * (b - a));
      void ask(Math.max(start, a - more), Math.min(start + c.span_s, b + more));
    }, REST_MS);
  };
  return { says, look };
}
