// Parts shared by the script of every page and that of a live one.

/** Event of the document after a live page has exchanged its plots for newer ones. */
export const EXCHANGED = "exchanged";

/** Event of the document by which the script of every page asks the one of a live page, which alone can ask its monitor. */
export const QUESTION = "question";
export interface Question {
  address: string;
  answer(found: unknown): void;
  fail(): void;
}

export const byId = (id: string): HTMLElement | null => document.getElementById(id);

/** Three significant digits, as everywhere in the report. */
export function digits(value: number): string {
  if (value === 0) return "0";
  const places = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return String(Number(value.toFixed(Math.min(places, 12))));
}

export function element<K extends keyof HTMLElementTagNameMap>(tag: K, className: string, text = ""): HTMLElementTagNameMap[K] {
  const made = document.createElement(tag);
  made.className = className;
  made.textContent = text;
  return made;
}
