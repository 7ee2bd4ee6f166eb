// Worker of the probes: datagrams of WebTransport, or messages of a WebSocket where a browser has no datagrams.
import { Wasm, clock } from "./wasm";

export interface ProbeSetup {
  kind: "open";
  module: WebAssembly.Module;
  zero: number;
  origin_ns: string;
  nonce: number;
  /** Addresses of the channel; the first is empty in a browser without WebTransport. */
  transport: string;
  socket: string;
  certificate: number[] | null;
}
export type ToProbe = ProbeSetup | { kind: "interval"; ms: number } | { kind: "turn"; ms: number } | { kind: "over" } | { kind: "close" };
export type FromProbe =
  | { kind: "open"; target: "webtransport" | "websocket"; why: string }
  | { kind: "rows"; text: string }
  | { kind: "news"; place?: number; after_s?: number; refused?: boolean; ended?: number }
  | { kind: "failed"; why: string }
  | { kind: "closed"; sent: number; slow: number };

const tell = (news: FromProbe): void => (self as unknown as Worker).postMessage(news);

/** A timer that a busy page throttles least: a wait on memory that nobody wakes. */
const timer = typeof SharedArrayBuffer === "function" && "waitAsync" in Atomics ? new Int32Array(new SharedArrayBuffer(4)) : null;
async function sleep(ms: number): Promise<void> {
  if (ms <= 0) return;
  const wait = timer && Atomics.waitAsync(timer, 0, 0, ms);
  if (wait?.async) await wait.value;
  else await new Promise((done) => setTimeout(done, ms));
}

let wasm: Wasm;
let zero = 0;
let send: (bytes: Uint8Array<ArrayBuffer>) => void = () => {};
let over = false;
/** Probes, and those of them that the browser's network process took late: its load keeps it busy. */
const SLOW_MS = 5;
let sent = 0;
let slow = 0;
const now = (): number => clock(zero);

function heard(at: number, bytes: Uint8Array): void {
  const length = wasm.give("probe_heard", bytes, at);
  if (length > 0) tell({ kind: "news", ...(JSON.parse(wasm.text(length)) as object) });
}

async function transport(setup: ProbeSetup): Promise<void> {
  const hashes = setup.certificate ? { serverCertificateHashes: [{ algorithm: "sha-256", value: new Uint8Array(setup.certificate) }] } : {};
  const session = new WebTransport(setup.transport, hashes);
  session.closed.catch(() => {});
  let timeout: ReturnType<typeof setTimeout> | undefined;
  const late = new Promise<never>((_, fail) => {
    timeout = setTimeout(() => fail(new Error("no connection within 5 s")), 5000);
  });
  await Promise.race([session.ready, late]).catch((e: unknown) => {
    session.close();
    throw e;
  });
  clearTimeout(timeout);
  session.datagrams.incomingHighWaterMark = 1000;
  const writer = session.datagrams.writable.getWriter();
  send = (bytes) => {
    const from = now();
    const taken = (): void => {
      sent++;
      slow += now() - from > SLOW_MS ? 1 : 0;
    };
    writer.write(bytes).then(taken, () => {});
  };
  const reader = session.datagrams.readable.getReader() as ReadableStreamDefaultReader<Uint8Array>;
  void (async () => {
    for (;;) {
      const { value, done } = await reader.read();
      const at = now();
      if (done) break;
      heard(at, value);
    }
  })().catch((e: unknown) => over || tell({ kind: "failed", why: `the channel of probes ended: ${String(e)}` }));
}

async function socket(setup: ProbeSetup): Promise<void> {
  const channel = new WebSocket(setup.socket);
  channel.binaryType = "arraybuffer";
  await new Promise<void>((done, fail) => {
    channel.onopen = () => done();
    channel.onerror = () => fail(new Error("the server takes no WebSocket"));
  });
  channel.onmessage = (event: MessageEvent<ArrayBuffer>) => heard(now(), new Uint8Array(event.data));
  channel.onclose = () => over || tell({ kind: "failed", why: "the channel of probes was closed" });
  send = (bytes) => channel.readyState === WebSocket.OPEN && channel.send(bytes);
}

async function probe(): Promise<void> {
  let told = now();
  while (!over) {
    for (;;) {
      const length = wasm.number("probe_wake", now());
      if (length <= 0) break;
      const bytes = wasm.bytes(length);
      const before = now();
      send(bytes);
      wasm.number("probe_sent", before, now());
    }
    if (wasm.number("probe_state") < 0) return tell({ kind: "failed", why: `the server grants no session of probes: ${wasm.why()}` });
    if (now() - told > 200) {
      told = now();
      const text = wasm.text(wasm.number("probe_rows"));
      if (text) tell({ kind: "rows", text });
    }
    const next = wasm.number("probe_next");
    await sleep(Math.min(next < 0 ? 100 : next - now(), 100));
  }
}

async function open(setup: ProbeSetup): Promise<void> {
  wasm = await Wasm.of(setup.module);
  zero = setup.zero;
  let target: "webtransport" | "websocket" = "webtransport";
  let why = "";
  try {
    if (!setup.transport) throw new Error("this browser has no WebTransport here");
    await transport(setup);
  } catch (e) {
    why = e instanceof Error ? e.message : String(e);
    target = "websocket";
    await socket(setup);
  }
  // Numbers of 64 bits pass as text: a script's numbers are not exact there.
  const settings = `{"nonce":${setup.nonce},"origin_ns":${setup.origin_ns},"target":"${target}","interval_ms":100}`;
  if (wasm.give("probe_open", settings, now()) < 0) throw new Error(wasm.why());
  tell({ kind: "open", target, why });
  await probe();
}

self.onmessage = (event: MessageEvent<ToProbe>): void => {
  const order = event.data;
  if (order.kind === "open") open(order).catch((e: unknown) => tell({ kind: "failed", why: String(e) }));
  else if (order.kind === "interval") wasm.number("probe_interval", order.ms);
  else if (order.kind === "turn") send(wasm.bytes(wasm.number("turn", order.ms)));
  else if (order.kind === "over") send(wasm.bytes(wasm.number("over")));
  else {
    over = true;
    const length = wasm.number("probe_close");
    if (length > 0) send(wasm.bytes(length));
    tell({ kind: "rows", text: wasm.text(wasm.number("probe_rows")) });
    tell({ kind: "closed", sent, slow });
  }
};
