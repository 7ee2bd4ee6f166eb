// Worker of the loads: downloads as responses without end, uploads as requests without end or over WebSockets.

export type ToLoad = { kind: "open"; base: string; query: string; streams: boolean } | { kind: "load"; down: boolean; flow: number; ms: number } | { kind: "stop"; flows: number[] };
export type FromLoad = { kind: "received"; flow: number; bytes: number; at: number } | { kind: "ended"; flow: number; why: string } | { kind: "silent"; flow: number };

const tell = (news: FromLoad): void => (self as unknown as Worker).postMessage(news);
const absolute = (): number => performance.timeOrigin + performance.now();

/** Interval of readings of a download. */
const EVERY_MS = 50;
/** Bytes that wait in a WebSocket: enough for 100 ms of 20 Mbit/s, and little beside a queue of the link. */
const WAITING = 256 << 10;
const PIECE = 64 << 10;

let base = "";
let query = "";
let streams = false;
const running = new Map<number, () => void>();

const noise = new Uint8Array(1 << 20);
for (let at = 0; at < noise.length; at += 65_536) crypto.getRandomValues(noise.subarray(at, at + 65_536));
let at = 0;
/** Bytes that no compression makes shorter. */
function piece(): Uint8Array<ArrayBuffer> {
  at = (at + 8191) % (noise.length - PIECE);
  return noise.slice(at, at + PIECE);
}

/** Two connections instead of one: a browser keeps requests with and without credentials apart. */
const credentials = (flow: number): RequestCredentials => (flow % 2 === 0 ? "omit" : "same-origin");

async function refused(answer: Response): Promise<string> {
  return `the server refused: ${(await answer.text()).trim() || answer.status}`;
}

async function down(flow: number, ms: number, signal: AbortSignal): Promise<string> {
  const answer = await fetch(`${base}down?${query}&flow=${flow}&ms=${ms}`, { signal, credentials: credentials(flow), cache: "no-store" });
  if (!answer.ok || !answer.body) return refused(answer);
  const reader = answer.body.getReader();
  let bytes = 0;
  let told = 0;
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return signal.aborted ? "" : "the server ended the download";
    bytes += value.length;
    const time = absolute();
    if (time - told >= EVERY_MS) {
      told = time;
      tell({ kind: "received", flow, bytes, at: time });
    }
  }
}

async function upStream(flow: number, ms: number, signal: AbortSignal): Promise<string> {
  const pull = (controller: ReadableStreamDefaultController<Uint8Array>): void => (signal.aborted ? controller.close() : controller.enqueue(piece()));
  const body = new ReadableStream<Uint8Array>({ pull }, { highWaterMark: 0 });
  const options = { method: "POST", body, duplex: "half", signal, credentials: credentials(flow) } as RequestInit;
  const answer = await fetch(`${base}up?${query}&flow=${flow}&ms=${ms}`, options);
  if (!answer.ok) return refused(answer);
  return signal.aborted ? "" : "the server ended the upload";
}

function upSocket(flow: number, ms: number, signal: AbortSignal): Promise<string> {
  return new Promise((done) => {
    const socket = new WebSocket(`${base.replace(/^http/, "ws")}up?${query}&flow=${flow}&ms=${ms}`);
    let why = "the server ended the upload";
    let timer: ReturnType<typeof setInterval> | undefined;
    socket.onmessage = (event) => (why = `the server refused: ${String(event.data)}`);
    socket.onerror = () => (why = "the server takes no upload over a WebSocket");
    socket.onclose = () => {
      clearInterval(timer);
      done(signal.aborted ? "" : why);
    };
    const fill = (): void => {
      while (socket.readyState === WebSocket.OPEN && socket.bufferedAmount < WAITING) socket.send(piece());
    };
    socket.onopen = () => {
      fill();
      timer = setInterval(fill, 4);
    };
    signal.addEventListener("abort", () => {
      clearInterval(timer);
      // What waits in the sockets would take seconds: the server ends the connection instead.
      fetch(`${base}stop?${query}&flow=${flow}`, { method: "POST" }).catch(() => {});
      socket.close();
    });
  });
}

async function load(isDown: boolean, flow: number, ms: number): Promise<void> {
  const stop = new AbortController();
  running.set(flow, () => stop.abort());
  let why: string;
  try {
    if (isDown) why = await down(flow, ms, stop.signal);
    else why = await (streams ? upStream : upSocket)(flow, ms, stop.signal);
  } catch (e) {
    why = stop.signal.aborted ? "" : String(e);
  }
  running.delete(flow);
  tell({ kind: "ended", flow, why });
}

self.onmessage = (event: MessageEvent<ToLoad>): void => {
  const order = event.data;
  if (order.kind === "open") [base, query, streams] = [order.base, order.query, order.streams];
  else if (order.kind === "load") void load(order.down, order.flow, order.ms);
  else for (const flow of order.flows) running.get(flow)?.();
};
