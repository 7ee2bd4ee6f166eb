// Time in which a report's page opens in headless Chromium, and the frames while one moves through time.
// Usage: node bench/page_speed.mjs URL-OF-PAGE [RUNS], after `npm ci` in crates/report/web
import { createRequire } from "node:module";

const { chromium } = createRequire(new URL("../crates/report/web/package.json", import.meta.url))("playwright-core");
const [url, runs = "5"] = process.argv.slice(2);

const twoFrames = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

/** Times of the frames, ms, sorted, while something is done. */
async function frames(page, act) {
  await page.evaluate(() => {
    globalThis.frames_ms = [];
    globalThis.counting = true;
    let last = performance.now();
    const next = (now) => {
      globalThis.frames_ms.push(now - last);
      last = now;
      if (globalThis.counting) requestAnimationFrame(next);
    };
    requestAnimationFrame(next);
  });
  await act();
  return page.evaluate(() => {
    globalThis.counting = false;
    return globalThis.frames_ms.slice(1).sort((a, b) => a - b);
  });
}

const middle = (sorted) => sorted[sorted.length >> 1];

/** Opens the page once: first paint and all plots drawn, ms; frames of moving through time. */
async function once(width) {
  const executablePath = process.env.CHROMIUM ?? "/usr/bin/chromium";
  const browser = await chromium.launch({ executablePath, args: ["--no-sandbox"] });
  const page = await (await browser.newContext({ viewport: { width, height: 900 } })).newPage();
  const begun = performance.now();
  await page.goto(url, { waitUntil: "commit" });
  await page.waitForFunction(() => document.querySelectorAll("canvas").length >= 3);
  await twoFrames(page);
  const plots = performance.now() - begun;
  const paint = await page.evaluate(() => performance.getEntriesByName("first-contentful-paint")[0].startTime);
  await page.locator("#smoke").getByRole("button", { name: "Zoom in", exact: true }).click();
  const over = page.locator("#smoke .u-over").first();
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  const x = (share) => box.x + share * box.width;
  await page.mouse.move(x(0.8), box.y + 50);
  await page.keyboard.down("Shift");
  await page.mouse.down();
  const moved = await frames(page, async () => {
    for (let i = 0; i <= 60; i++) await page.mouse.move(x(0.8 - (0.6 * i) / 60), box.y + 50);
  });
  await browser.close();
  return { plots, paint, moved };
}

for (const width of [1280, 390]) {
  const all = [];
  for (let i = 0; i < Number(runs); i++) all.push(await once(width));
  const of = (key) => all.map((a) => a[key]).sort((a, b) => a - b);
  const moved = all.flatMap((a) => a.moved).sort((a, b) => a - b);
  const late = moved.filter((ms) => ms > 50).length;
  const ms = (v) => `${v.toFixed(0)} ms`;
  console.log(
    `${width} px, ${runs} runs: first paint ${ms(middle(of("paint")))}, all plots ${ms(middle(of("plots")))} (at most ${ms(of("plots").at(-1))}); ` +
      `${moved.length} frames while moving: median ${ms(middle(moved))}, 95 % ${ms(moved[Math.floor(moved.length * 0.95)])}, longest ${ms(moved.at(-1))}, ${late} above 50 ms`,
  );
}
