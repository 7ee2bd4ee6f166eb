// The report in a real browser, opened from a file as a user would. The pages come from the crate's example.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { chromium, type Browser, type BrowserContextOptions, type Page } from "playwright-core";

const crate = resolve(process.cwd(), "..");
const out = mkdtempSync(join(tmpdir(), "tailback-report-"));
let browser: Browser;

before(async () => {
  execFileSync(process.env["CARGO"] ?? "cargo", ["run", "--release", "--quiet", "--package", "tailback-report", "--example", "sample_report", out], { cwd: crate, stdio: ["ignore", "ignore", "inherit"] });
  const places = [process.env["CHROMIUM"], "/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
  const executablePath = places.find((p) => p && existsSync(p));
  assert.ok(executablePath, "no browser: install chromium (`make deps`), or name one in the variable CHROMIUM");
  browser = await chromium.launch({ executablePath, args: ["--no-sandbox", "--disable-background-networking", "--disable-component-update", "--no-first-run", "--no-default-browser-check"] });
  console.log(`pages and screenshots: ${out}`);
});
after(async () => browser?.close());

interface Opened {
  page: Page;
  /** Everything the page asked for besides itself, and everything that went wrong in it. */
  requests: string[];
  errors: string[];
}

async function open(name: string, options: BrowserContextOptions = {}): Promise<Opened> {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, ...options });
  const page = await context.newPage();
  const url = pathToFileURL(join(out, `${name}.html`)).href;
  const requests: string[] = [];
  const errors: string[] = [];
  page.on("request", (r) => r.url() !== url && requests.push(r.url()));
  page.on("console", (m) => ["error", "warning"].includes(m.type()) && errors.push(m.text()));
  page.on("pageerror", (e) => errors.push(String(e)));
  page.on("dialog", (d) => {
    errors.push(`dialog: ${d.message()}`);
    void d.dismiss();
  });
  await page.goto(url);
  if (options.javaScriptEnabled !== false) await page.waitForFunction(() => document.querySelectorAll("canvas").length >= 2);
  return { page, requests, errors };
}

const close = (opened: Opened): Promise<void> => opened.page.context().close();

/** Lets the plots draw: uPlot commits in a microtask, sizes come with the next frame. */
const settle = (page: Page): Promise<void> => page.evaluate(() => new Promise<void>((done) => requestAnimationFrame(() => requestAnimationFrame(() => done()))));

/** For each canvas: pixels that are painted strongly, and the sum of all, which changes with the picture. */
const painted = (page: Page): Promise<{ strong: number; sum: number }[]> =>
  page.evaluate(() =>
    [...document.querySelectorAll("canvas")].map((canvas) => {
      // A copy is read, so that the page's own canvas stays as it is for users.
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true })!;
      copy.drawImage(canvas, 0, 0);
      const { data } = copy.getImageData(0, 0, canvas.width, canvas.height);
      let strong = 0;
      let sum = 0;
      for (let i = 0; i < data.length; i += 4) {
        if (data[i + 3]! > 200) strong++;
        sum = (sum * 31 + data[i]! + 3 * data[i + 1]! + 7 * data[i + 2]! + 11 * data[i + 3]!) % 1_000_003;
      }
      return { strong, sum };
    }),
  );

const readout = (page: Page, figure: string): Promise<string> => page.locator(`#${figure} .readout`).innerText();

/** The plotting area of a figure's first or second plot. */
async function area(page: Page, figure: string, index = 0): Promise<{ x: number; y: number; width: number; height: number }> {
  const over = page.locator(`#${figure} .u-over`).nth(index);
  await over.scrollIntoViewIfNeeded();
  const box = await over.boundingBox();
  assert.ok(box, `${figure} has no plot ${index}`);
  return box;
}

for (const name of ["adsl", "fiber", "partial"]) {
  for (const [width, colorScheme] of [[360, "light"], [390, "dark"], [1280, "light"], [1280, "dark"]] as const) {
    test(`${name} at ${width} px, ${colorScheme}: draws everything, asks for nothing, fits the screen`, async () => {
      const opened = await open(name, { viewport: { width, height: 800 }, colorScheme });
      const { page } = opened;
      await settle(page);
      await page.screenshot({ path: join(out, `${name}-${width}-${colorScheme}.png`), fullPage: true });
      assert.deepEqual(opened.errors, []);
      assert.deepEqual(opened.requests, []);
      const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
      assert.equal(wide, 0, `the page is ${wide} px wider than the screen`);
      const canvases = await painted(page);
      assert.equal(canvases.length, 3);
      for (const { strong } of canvases) assert.ok(strong > 1000, `a plot has only ${strong} painted pixels`);
      assert.equal(await page.locator(".static:visible").count(), 0);
      await close(opened);
    });
  }
}

for (const colorScheme of ["light", "dark"] as const) {
  test(`every text can be read in ${colorScheme} mode: contrast of at least 4.5`, async () => {
    const opened = await open("partial", { colorScheme });
    const poor = await opened.page.evaluate(() => {
      const parse = (c: string): number[] => (c.match(/[\d.]+/g) ?? []).map(Number);
      const luminance = (c: number[]): number => {
        const [r, g, b] = c.slice(0, 3).map((v) => (v / 255 <= 0.04045 ? v / 255 / 12.92 : ((v / 255 + 0.055) / 1.055) ** 2.4));
        return 0.2126 * r! + 0.7152 * g! + 0.0722 * b!;
      };
      const backdrop = (e: Element | null): number[] => {
        for (; e; e = e.parentElement) {
          const c = parse(getComputedStyle(e).backgroundColor);
          if (c.length === 3 || c[3]! > 0.99) return c;
        }
        return [255, 255, 255];
      };
      const found: string[] = [];
      let seen = 0;
      const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
      while (walker.nextNode()) {
        const e = walker.currentNode.parentElement!;
        if (!walker.currentNode.textContent?.trim() || e.closest("script, style, .static, .hidden") || !e.checkVisibility()) continue;
        seen++;
        const [a, b] = [luminance(parse(getComputedStyle(e).color)), luminance(backdrop(e))];
        const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
        if (ratio < 4.5) found.push(`${ratio.toFixed(2)}: ${walker.currentNode.textContent}`);
      }
      return seen > 100 ? found : [`only ${seen} texts were seen`];
    });
    assert.deepEqual(poor, []);
    await close(opened);
  });
}

test("the cursor reads values, from both plots and by the keyboard", async () => {
  const opened = await open("adsl");
  const { page } = opened;
  // 38 s of 60: in the upload, whose queue swings between 215 and 430 ms.
  for (const index of [0, 1]) {
    const box = await area(page, "over-time", index);
    await page.mouse.move(box.x + (box.width * 38) / 60, box.y + box.height / 2);
    const text = await readout(page, "over-time");
    const probe = Number(/probe ([\d.]+) ms/.exec(text)?.[1]);
    assert.ok(probe > 220 && probe < 470, text);
    assert.match(text, /^(37\.[89]|38\.[01])\d s/);
    assert.match(text, /upload's own packets [\d.]+ ms · upload 0?\.?\d+ [Mk]bit\/s/);
    await page.mouse.move(0, 0);
  }
  await page.locator("#over-time .plot").first().focus();
  await page.keyboard.press("ArrowRight");
  const one = await readout(page, "over-time");
  await page.keyboard.press("Shift+ArrowRight");
  assert.notEqual(await readout(page, "over-time"), one);
  const box = await area(page, "distribution");
  await page.mouse.move(box.x + box.width / 2, box.y + box.height / 2);
  assert.match(await readout(page, "distribution"), /^within (9\d|1\d\d)[.\d]* ms · Idle 100 % · Download (9\d[.\d]*|100) % · Upload [\d.]+ %/);
  assert.deepEqual(opened.errors, []);
  await close(opened);
});

test("dragging zooms both plots, a phase's button shows that phase, a double click shows all", async () => {
  const opened = await open("adsl");
  const { page } = opened;
  await settle(page);
  const whole = await painted(page);
  const box = await area(page, "over-time");
  const chosen = (): Promise<string[]> => page.locator("#over-time button.chosen").allInnerTexts();
  const edge = async (share: number): Promise<number> => {
    await page.mouse.move(box.x + share * (box.width - 1), box.y + 30);
    return Number.parseFloat(await readout(page, "over-time"));
  };
  assert.deepEqual(await chosen(), ["All"]);
  await page.mouse.move(box.x + box.width * 0.5, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 4 });
  await page.mouse.up();
  await settle(page);
  assert.deepEqual(await chosen(), []);
  const zoomed = await painted(page);
  for (const i of [0, 1]) assert.notEqual(zoomed[i]!.sum, whole[i]!.sum, `plot ${i} did not zoom`);
  assert.ok(Math.abs((await edge(0)) - 30) < 0.2 && Math.abs((await edge(1)) - 36) < 0.2, `${await edge(0)} to ${await edge(1)}`);
  await page.getByRole("button", { name: "Upload", exact: true }).first().click();
  assert.deepEqual(await chosen(), ["Upload"]);
  assert.ok(Math.abs((await edge(0)) - 27) < 0.1 && Math.abs((await edge(1)) - 43.2) < 0.1);
  await page.mouse.dblclick(box.x + 50, box.y + 50);
  await settle(page);
  assert.deepEqual(await chosen(), ["All"]);
  assert.ok((await edge(1)) > 59.5);
  await close(opened);
});

test("what is switched off is gone, and axes change between linear and logarithmic", async () => {
  const opened = await open("adsl");
  const { page } = opened;
  await settle(page);
  const toggles = page.locator(".tools button[aria-pressed]");
  const names = await toggles.allInnerTexts();
  assert.deepEqual(names, ["Probes", "Load's own packets", "Lost", "Logarithmic", "Idle", "Download", "Upload", "Both", "Logarithmic"]);
  for (const [i, name] of names.entries()) {
    const plot = i < 4 ? 0 : 2;
    const [before, pressed] = [(await painted(page))[plot], await toggles.nth(i).getAttribute("aria-pressed")];
    await toggles.nth(i).click();
    await page.mouse.move(0, 0);
    await settle(page);
    assert.notEqual((await painted(page))[plot]!.sum, before!.sum, `"${name}" changes nothing`);
    assert.notEqual(await toggles.nth(i).getAttribute("aria-pressed"), pressed);
    await toggles.nth(i).click();
    await page.mouse.move(0, 0);
    await settle(page);
    assert.equal((await painted(page))[plot]!.sum, before!.sum, `"${name}" does not come back`);
  }
  assert.deepEqual(opened.errors, []);
  await close(opened);
});

test("plots follow a change of the colour scheme and of the width", async () => {
  const opened = await open("fiber", { colorScheme: "light" });
  const { page } = opened;
  await settle(page);
  const light = await painted(page);
  await page.emulateMedia({ colorScheme: "dark" });
  await settle(page);
  for (const [i, { sum }] of (await painted(page)).entries()) assert.notEqual(sum, light[i]!.sum);
  await page.setViewportSize({ width: 420, height: 800 });
  await settle(page);
  const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
  assert.equal(wide, 0);
  await close(opened);
});

test("the downloaded answer is the answer, and parses", async () => {
  const opened = await open("partial");
  const [download] = await Promise.all([opened.page.waitForEvent("download"), opened.page.locator("#download").click()]);
  assert.equal(download.suggestedFilename(), "answer.json");
  const answer = JSON.parse(readFileSync(await download.path(), "utf8"));
  assert.equal(answer.version, 1);
  assert.equal(answer.title, 'Cable <script>alert(1)</script> & "friends"');
  assert.match(answer.up.queue_ms.cannot_tell, /stopped answering/);
  await close(opened);
});

test("commands are copied whole, or selected where the clipboard is closed", async () => {
  const opened = await open("adsl");
  const button = opened.page.locator(".commands button");
  await button.click();
  await opened.page.waitForFunction(() => document.querySelector(".commands button")?.textContent !== "Copy");
  const [label, selected] = await opened.page.evaluate(() => [document.querySelector(".commands button")?.textContent, String(getSelection())]);
  assert.ok(label === "Copied" || (label?.startsWith("Selected") && selected?.includes("tc qdisc add dev eth0")), label ?? "");
  await close(opened);
});

test("a title cannot run as a script", async () => {
  const opened = await open("partial");
  assert.deepEqual(opened.errors, []);
  assert.match(await opened.page.locator(".meta").innerText(), /Cable <script>alert\(1\)<\/script> & "friends"/);
  assert.equal(await opened.page.title(), 'Cable <script>alert(1)</script> & "friends": grade ?');
  await close(opened);
});

test("the page's own policy stops any request", async () => {
  const opened = await open("adsl");
  const outcome = await opened.page.evaluate(() => fetch("http://127.0.0.1:9/").then(() => "sent", (e) => String(e)));
  assert.match(outcome, /TypeError/);
  assert.match(opened.errors.join(), /Content Security Policy/);
  await close(opened);
});

test("without a script the tables, the static plots and the reasons are there", async () => {
  const opened = await open("partial", { javaScriptEnabled: false, viewport: { width: 360, height: 800 } });
  const { page } = opened;
  assert.equal(await page.locator(".static svg:visible").count(), 2);
  assert.equal(await page.locator("table:visible").count(), 2);
  assert.equal(await page.locator(".live:visible, button:visible, #download:visible").count(), 0);
  assert.ok((await page.locator(".reasons li:visible").count()) >= 3);
  await page.screenshot({ path: join(out, "partial-no-script.png"), fullPage: true });
  await close(opened);
});

test("on paper the static plots stand in for the live ones, dark on white", async () => {
  const opened = await open("adsl", { colorScheme: "dark" });
  await opened.page.emulateMedia({ media: "print" });
  assert.equal(await opened.page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
  assert.equal(await opened.page.evaluate(() => getComputedStyle(document.querySelector(".static .paper")!).fill), "rgb(255, 255, 255)");
  assert.equal(await opened.page.locator(".static svg:visible").count(), 2);
  assert.equal(await opened.page.locator("canvas:visible, button:visible").count(), 0);
  await opened.page.pdf({ path: join(out, "adsl.pdf"), format: "A4" });
  await close(opened);
});

test("headings, tables and plots are named for those who cannot see them", async () => {
  const opened = await open("adsl");
  const { page } = opened;
  assert.equal(await page.locator("h1").count(), 1);
  const rows = page.locator("tbody tr");
  assert.equal(await rows.count(), await page.locator("tbody tr > th[scope=row]").count());
  assert.equal(await page.locator("thead th:not([scope=col])").count(), 0);
  assert.equal(await page.locator(".plot:not([aria-label])").count(), 1, "only the plot of throughput is read through the one above it");
  await close(opened);
});
