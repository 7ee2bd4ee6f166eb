// Runs the test of `tailback serve --web` in Chromium, and prints what came of it as JSON:
//   node browse.mjs URL [socket] [save] [screens=DIRECTORY]
import { existsSync } from "node:fs";
import { join } from "node:path";
import { chromium } from "playwright-core";

const [url, ...options] = process.argv.slice(2);
const screens = options.find((o) => o.startsWith("screens="))?.slice(8);
const places = [process.env.CHROMIUM, "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const executablePath = places.find((p) => p && existsSync(p));
if (!executablePath) throw new Error("no browser: install chromium (`make deps`), or name one in the variable CHROMIUM");
const quiet = ["--disable-background-networking", "--disable-component-update", "--no-first-run", "--no-default-browser-check"];
const browser = await chromium.launch({ executablePath, args: ["--no-sandbox", ...quiet] });
try {
  const context = await browser.newContext({ ignoreHTTPSErrors: true, viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const errors = [];
  // A load that is stopped resets its connection; a page whose certificate was clicked through is not quite trusted.
  const expected = /ERR_CONNECTION_RESET|ERR_ABORTED|Cross-Origin-Opener-Policy/;
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && !expected.test(m.text()) && errors.push(m.text()));
  page.on("pageerror", (e) => errors.push(String(e)));
  if (options.includes("socket")) await page.addInitScript(() => delete globalThis.WebTransport);
  await page.goto(url);
  await page.locator("#start:enabled").waitFor();
  const screen = async (name) => {
    if (!screens) return;
    for (const [width, colorScheme] of [[390, "dark"], [390, "light"], [1280, "light"], [1280, "dark"]]) {
      await page.setViewportSize({ width, height: 844 });
      await page.emulateMedia({ colorScheme });
      await page.screenshot({ path: join(screens, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      if (wide > 0) errors.push(`${name} is ${wide} px wider than a screen of ${width}`);
    }
  };
  await screen("before");
  const began = Date.now();
  await page.locator("#start").click();
  if (screens) {
    await page.waitForTimeout(12_000);
    await screen("running");
  }
  await page.locator("#run[data-state=over]").waitFor({ state: "attached", timeout: 240_000 });
  const seconds = (Date.now() - began) / 1000;
  const status = await page.locator("#status").innerText();
  const answer = await page.evaluate(() => document.getElementById("answer")?.textContent ?? "null");
  await screen("after");
  let saved = null;
  if (options.includes("save")) {
    await page.locator("#save").click();
    await page.waitForFunction(() => /aved/.test(document.getElementById("status").textContent));
    saved = await page.locator("#status").innerText();
  }
  const canvases = await page.locator("canvas").count();
  const isolated = await page.evaluate(() => globalThis.crossOriginIsolated);
  console.log(JSON.stringify({ status, seconds, saved, canvases, isolated, errors, answer: JSON.parse(answer) }));
} finally {
  await browser.close();
}
