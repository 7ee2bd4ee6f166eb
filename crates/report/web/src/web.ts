// The page of `tailback serve --web`: the test in a browser. Phases, figures and the report come from WebAssembly; the
// scripts own clocks and sockets.
import { EXCHANGED, byId, digits, element } from "./dom";
import { Wasm, clock } from "./wasm";
import type { FromLoad, ToLoad } from "./web_load";
import type { FromProbe, ToProbe } from "./web_probe";

interface Settings {
  port: number;
  certificate: number[] | null;
  keep: boolean;
  release: string;
}
type Order = { probe: number } | { turn: number } | { load: { number: number; down: boolean; first_flow: number; flows: number; ms: number } } | { stop: number | null };
interface Orders {
  orders: Order[];
  wait_ms: number;
  done: boolean;
  shown: { phase: string; number: number; elapsed_s: number; whole_s: number; down_bps: number | null; up_bps: number | null; rtt_ms: number | null; note: string } | null;
}

const PHASES: Record<string, string> = { idle: "Idle", down: "Download", up: "Upload", both: "Both" };
const need = <T extends HTMLElement>(id: string): T => {
  const found = byId(id);
  if (!found) throw new Error(`the page has no ${id}`);
  return found as T;
};
const says = (text: string): void => void (need("status").textContent = text);
const sleep = (ms: number): Promise<void> => new Promise((done) => setTimeout(done, ms));

function rate(bps: number | null): string {
  if (bps === null) return "–";
  const [unit, size] = ([["Gbit/s", 1e9], ["Mbit/s", 1e6], ["kbit/s", 1e3]] as [string, number][]).find(([, s]) => bps >= s) ?? ["bit/s", 1];
  return `${digits(bps / size)} ${unit}`;
}

/** True if a request may have a body without end: Chromium does, over HTTP/2. */
function canStream(): boolean {
  let duplex = false;
  const has = new Request("/", {
    body: new ReadableStream(),
    method: "POST",
    get duplex() {
      duplex = true;
      return "half";
    },
  } as RequestInit).headers.has("Content-Type");
  return duplex && !has && location.protocol === "https:";
}

function show(orders: Orders): void {
  const shown = orders.shown;
  if (!shown) return;
  const progress = need<HTMLProgressElement>("progress");
  progress.hidden = need("now").hidden = false;
  progress.value = Math.min(1, shown.elapsed_s / Math.max(shown.whole_s, 0.1));
  need("now-phase").textContent = `${shown.number} ${PHASES[shown.phase] ?? shown.phase}`;
  need("now-rtt").textContent = shown.rtt_ms === null ? "–" : `${digits(shown.rtt_ms)} ms`;
  need("now-down").textContent = rate(shown.down_bps);
  need("now-up").textContent = rate(shown.up_bps);
  says(shown.note);
}

class Run {
  private readonly zero = performance.timeOrigin + performance.now();
  private readonly origin_ns = (BigInt(Math.round(this.zero * 1000)) * 1000n).toString();
  private readonly probe = new Worker("web_probe.js");
  private readonly load = new Worker("web_load.js");
  private readonly session = [...crypto.getRandomValues(new Uint8Array(16))].map((b) => b.toString(16).padStart(2, "0")).join("");
  private readonly ready: { open: (target: string) => void; turn: () => void; closed: () => void; fail: (e: Error) => void } = { open: () => {}, turn: () => {}, closed: () => {}, fail: () => {} };
  private readonly flows = new Map<number, number[]>();
  private failed: string | null = null;
  private stopped: string | null = null;
  private waiting = "";

  constructor(
    private readonly wasm: Wasm,
    private readonly module: WebAssembly.Module,
    private readonly settings: Settings,
  ) {
    this.probe.onmessage = (event: MessageEvent<FromProbe>) => this.probed(event.data);
    this.load.onmessage = (event: MessageEvent<FromLoad>) => this.loaded(event.data);
    this.probe.onerror = (event) => this.fail(event.message);
    this.load.onerror = (event) => this.fail(event.message);
  }

  private now(): number {
    return clock(this.zero);
  }

  private fail(why: string): void {
    this.failed ??= why;
    this.ready.fail(new Error(why));
  }

  private tell(order: ToProbe): void {
    this.probe.postMessage(order);
  }

  private order(order: ToLoad): void {
    this.load.postMessage(order);
  }

  private probed(news: FromProbe): void {
    if (news.kind === "open") this.ready.open(news.target);
    else if (news.kind === "failed") this.fail(news.why);
    else if (news.kind === "closed") this.closed(news.sent, news.slow);
    else if (news.kind === "rows") {
      if (news.text && this.wasm.give("test_rows", news.text, this.now()) < 0) this.fail(this.wasm.why());
    } else if (news.ended !== undefined) this.wasm.give("test_ended", "", this.now(), news.ended);
    else if (news.refused) this.fail("too many users wait for this server: try again in ten minutes");
    else if (news.place === 0) this.ready.turn();
    else this.waiting = `Another user's test is running. ${news.place} before you, about ${Math.ceil(news.after_s ?? 0)} s.`;
  }

  /** Tells of a browser that was too busy to send probes at once, and so to receive their answers. */
  private closed(sent: number, slow: number): void {
    if (slow * 20 > sent) this.wasm.give("test_doubt", `${slow} of ${sent} probes waited more than 5 ms in the browser before they left: it was busy, and its own delay is in the figures`, this.now());
    this.ready.closed();
  }

  private loaded(news: FromLoad): void {
    if (news.kind === "received") this.wasm.number("test_received", news.at - this.zero, news.flow, news.bytes);
    else if (news.kind === "ended") this.wasm.give("test_ended", news.why, this.now(), news.flow);
  }

  private wait<K extends "open" | "turn" | "closed">(what: K): Promise<string> {
    return new Promise((done, fail) => {
      if (this.failed) return fail(new Error(this.failed));
      this.ready.fail = fail;
      this.ready[what] = (value?: string) => done(value ?? "");
    });
  }

  /** Asks for the uplink until the turn comes. */
  private async turn(ms: number): Promise<void> {
    let come = false;
    const turn = this.wait("turn").then(() => (come = true));
    while (!come && !this.stopped) {
      this.tell({ kind: "turn", ms });
      await Promise.race([turn, sleep(1000)]);
      if (!come) says(this.waiting || "Waiting for the server …");
    }
  }

  private begin(load: { number: number; down: boolean; first_flow: number; flows: number; ms: number }): void {
    const flows = Array.from({ length: load.flows }, (_, i) => load.first_flow + i);
    this.flows.set(load.number, flows);
    for (const flow of flows) this.order({ kind: "load", down: load.down, flow, ms: Math.ceil(load.ms) });
  }

  private end(number: number | null): void {
    for (const [n, flows] of this.flows) {
      if (number !== null && n !== number) continue;
      this.order({ kind: "stop", flows });
      this.flows.delete(n);
    }
  }

  /** Carries the test out to its end. */
  async all(): Promise<void> {
    const query = `session=${this.session}`;
    const base = new URL("./", location.href);
    const host = base.hostname === "localhost" ? "127.0.0.1" : base.hostname;
    const opened = this.wait("open");
    this.tell({
      kind: "open",
      module: this.module,
      zero: this.zero,
      origin_ns: this.origin_ns,
      nonce: Math.floor(Math.random() * 2 ** 53),
      transport: "WebTransport" in self ? `https://${host}:${this.settings.port}/channel?${query}` : "",
      socket: `${base.href.replace(/^http/, "ws")}channel?${query}`,
      certificate: this.settings.certificate,
    });
    this.order({ kind: "open", base: base.href, query, streams: canStream() });
    const target = await opened;
    const setup = JSON.stringify({ origin_ns: 0, target, title: `a browser, against ${location.host}`, browser: navigator.userAgent, server: location.host });
    if (this.wasm.give("test_open", setup.replace('"origin_ns":0', `"origin_ns":${this.origin_ns}`), this.now()) < 0) throw new Error(this.wasm.why());
    for (;;) {
      if (this.failed) throw new Error(this.failed);
      if (this.stopped) {
        this.wasm.give("test_stop", this.stopped);
        this.end(null);
      }
      const orders = JSON.parse(this.wasm.asked("test_step", this.now())) as Orders;
      for (const order of orders.orders) {
        if ("probe" in order) this.tell({ kind: "interval", ms: order.probe });
        else if ("turn" in order) await this.turn(order.turn);
        else if ("load" in order) this.begin(order.load);
        else this.end(order.stop);
      }
      show(orders);
      if (orders.done) return;
      await sleep(orders.wait_ms);
    }
  }

  /** Ends probes and loads, whatever became of the test. */
  async close(): Promise<void> {
    this.end(null);
    this.tell({ kind: "over" });
    const closed = this.failed ? Promise.resolve("") : this.wait("closed").catch(() => "");
    this.tell({ kind: "close" });
    await Promise.race([closed, sleep(1000)]);
    await sleep(50);
    this.probe.terminate();
    this.load.terminate();
  }

  /** Ends the test early, at a user's wish. */
  stop(why: string): void {
    this.stopped ??= why;
  }

  get interrupted(): boolean {
    return this.stopped !== null;
  }

  report(complete: boolean): string {
    return this.wasm.asked("test_report", this.now(), complete ? 1 : 0);
  }
}

function place(html: string): void {
  const fresh = new DOMParser().parseFromString(html, "text/html");
  need("report").replaceChildren(...fresh.body.childNodes, ...fresh.head.childNodes);
  document.dispatchEvent(new Event(EXCHANGED));
}

async function save(wasm: Wasm): Promise<void> {
  const button = need<HTMLButtonElement>("save");
  button.disabled = true;
  try {
    const answer = await fetch("save", { method: "POST", body: wasm.asked("test_saved") });
    const text = (await answer.text()).trim();
    says(answer.ok ? `Saved at the server as ${text}.` : `Not saved: ${text}`);
    button.hidden = answer.ok;
  } catch (e) {
    says(`Not saved: ${String(e)}`);
  }
  button.disabled = false;
}

async function start(): Promise<void> {
  const settings = (await (await fetch("settings.json")).json()) as Settings;
  const module = await WebAssembly.compileStreaming(fetch("browser.wasm"));
  const [button, stop, keep] = [need<HTMLButtonElement>("start"), need<HTMLButtonElement>("stop"), need<HTMLButtonElement>("save")];
  let wasm = await Wasm.of(module);
  keep.addEventListener("click", () => void save(wasm));
  let run: Run | null = null;
  stop.addEventListener("click", () => run?.stop("the user stopped it"));
  document.addEventListener("visibilitychange", () => document.hidden && run?.stop("the page was hidden, and browsers slow hidden pages down"));
  button.addEventListener("click", async () => {
    button.hidden = keep.hidden = true;
    stop.hidden = false;
    need("report").replaceChildren();
    wasm = await Wasm.of(module);
    run = new Run(wasm, module, settings);
    let why = "";
    says("Connecting …");
    try {
      await run.all();
    } catch (e) {
      why = e instanceof Error ? e.message : String(e);
    }
    await run.close();
    need("progress").hidden = need("now").hidden = stop.hidden = true;
    says("Analysing …");
    await sleep(30);
    try {
      place(run.report(why === "" && !run.interrupted));
      says(why ? `The test ended early: ${why}` : run.interrupted ? "The test was stopped early." : "Done. The result is in this browser only.");
      keep.hidden = !settings.keep;
    } catch (e) {
      says(`The test failed: ${why || String(e)}`);
    }
    button.textContent = "Test again";
    button.hidden = false;
    run = null;
    need("run").dataset["state"] = "over";
  });
  says("");
  button.disabled = false;
}

start().catch((e: unknown) => {
  says(`The page cannot start: ${String(e)}`);
  need("run").append(element("p", "evidence", "Load it again; a browser of 2022 or later is needed."));
});
