// The Rust side of the test, crates/browser/src/abi.rs: texts and bytes pass through one buffer.
type Call = (...numbers: number[]) => number;

export class Wasm {
  private constructor(private readonly exports: Record<string, unknown>) {}

  static async of(module: WebAssembly.Module): Promise<Wasm> {
    return new Wasm((await WebAssembly.instantiate(module, {})).exports as Record<string, unknown>);
  }

  private function(name: string): Call {
    return this.exports[name] as Call;
  }

  private get memory(): ArrayBuffer {
    return (this.exports["memory"] as WebAssembly.Memory).buffer;
  }

  /** Calls a function of numbers. */
  number(name: string, ...numbers: number[]): number {
    return this.function(name)(...numbers);
  }

  /** Hands bytes over and calls a function with the numbers and their length. */
  give(name: string, given: string | Uint8Array, ...numbers: number[]): number {
    const bytes = typeof given === "string" ? new TextEncoder().encode(given) : given;
    const at = this.function("place")(bytes.length) >>> 0;
    new Uint8Array(this.memory, at, bytes.length).set(bytes);
    return this.function(name)(...numbers, bytes.length);
  }

  /** The latest answer, of which a function has told the length. */
  bytes(length: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(this.memory, this.function("answer")() >>> 0, Math.max(0, length)).slice();
  }

  text(length: number): string {
    return new TextDecoder().decode(this.bytes(length));
  }

  /** The reason of a call that returned -1: the answer that stands in the buffer, up to its end. */
  asked(name: string, ...numbers: number[]): string {
    const length = this.number(name, ...numbers);
    if (length < 0) throw new Error(this.why());
    return this.text(length);
  }

  why(): string {
    return this.text(this.number("answered"));
  }
}

/** Time of the page in milliseconds since its zero; the same in its workers. */
export const clock = (zero: number): number => performance.timeOrigin - zero + performance.now();
