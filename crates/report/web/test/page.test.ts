// The report in a real browser, opened from a file as a user would. The pages come from the crate's example.
import assert from "node:assert/strict";
import { execFileSync } from "node:child_process";
import { existsSync, mkdtempSync, readFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { after, before, test } from "node:test";
import { pathToFileURL } from "node:url";
import { lines } from "../src/tree";
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
  if (options.javaScriptEnabled !== false) await page.waitForFunction(() => !document.querySelector("figure .live, #live, .packets") || document.querySelectorAll("canvas").length >= 2);
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

for (const [width, colorScheme] of [[390, "dark"], [1280, "light"]] as const) {
  test(`weeks at ${width} px, ${colorScheme}: draws everything, asks for nothing, fits the screen`, async () => {
    const opened = await open("weeks", { viewport: { width, height: 800 }, colorScheme });
    const { page } = opened;
    await settle(page);
    await page.screenshot({ path: join(out, `weeks-${width}-${colorScheme}.png`), fullPage: true });
    assert.deepEqual(opened.errors, []);
    assert.deepEqual(opened.requests, []);
    const wide = await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth);
    assert.equal(wide, 0, `the page is ${wide} px wider than the screen`);
    const canvases = await painted(page);
    assert.equal(canvases.length, 4);
    for (const { strong } of canvases) assert.ok(strong > 500, `a plot has only ${strong} painted pixels`);
    await close(opened);
  });
}

const axe = readFileSync(join(process.cwd(), "node_modules/axe-core/axe.min.js"), "utf8");
interface Violation {
  id: string;
  impact: string;
  nodes: { target: string[]; failureSummary: string }[];
}

/** Every page that the sample holds, in both colour schemes and both widths: axe-core finds nothing serious. */
for (const file of ["adsl", "fiber", "partial", "weeks", "live", "capture", "networks", "film"]) {
  for (const [width, colorScheme] of [[390, "light"], [390, "dark"], [1280, "light"], [1280, "dark"]] as const) {
    test(`axe-core finds nothing serious in ${file} at ${width} px, ${colorScheme}`, async () => {
      const opened = await open(file, { viewport: { width, height: 900 }, colorScheme });
      const { page } = opened;
      await settle(page);
      for (const details of await page.locator("details").all()) await details.evaluate((d) => ((d as HTMLDetailsElement).open = true));
      await page.evaluate(axe);
      const found = await page.evaluate(async () => {
        const run = (globalThis as unknown as { axe: { run(): Promise<{ violations: Violation[]; passes: unknown[] }> } }).axe.run;
        const { violations, passes } = await run();
        return { violations, passes: passes.length };
      });
      assert.ok(found.passes > 10, "axe-core has looked");
      const serious = found.violations.filter((v) => ["serious", "critical"].includes(v.impact));
      assert.deepEqual(serious.map((v) => `${v.id}: ${v.nodes.map((n) => `${n.target.join(" ")} ${n.failureSummary}`).join("; ")}`), []);
      await close(opened);
    });
  }
}

test("dates are written as in ISO 8601", async () => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 }, locale: "en-US" });
  const page = await context.newPage();
  await page.addInitScript(() => {
    const drawn: string[] = ((globalThis as unknown as { drawn: string[] }).drawn = []);
    const fill = CanvasRenderingContext2D.prototype.fillText;
    CanvasRenderingContext2D.prototype.fillText = function (text, ...place) {
      drawn.push(text);
      return fill.call(this, text, ...place);
    };
  });
  await page.goto(pathToFileURL(join(out, "weeks.html")).href);
  await page.waitForFunction(() => document.querySelectorAll("canvas").length >= 4);
  await settle(page);
  const marks = async (): Promise<string[]> => page.evaluate(() => (globalThis as unknown as { drawn: string[] }).drawn.splice(0));
  const days = await marks();
  assert.ok(days.includes("06-03") && days.includes("2026"), days.join(" "));
  // A closer look is marked with hours, and the day below them.
  for (let i = 0; i < 4; i++) await page.locator("#smoke").getByRole("button", { name: "Zoom in", exact: true }).click();
  await settle(page);
  const hours = await marks();
  assert.ok(hours.some((m) => /^\d\d:\d\d$/.test(m)) && hours.some((m) => /^(\d{4}-)?\d\d-\d\d$/.test(m)), hours.join(" "));
  // The text of a marked moment is the user's.
  const ours = [...days, ...hours].filter((m) => m !== "<b>a call</b>");
  for (const mark of ours) assert.ok(!/\/|[ap]m$/i.test(mark), mark);
  await context.close();
});

test("the tables of three networks fit a page of 1280 px", async () => {
  const opened = await open("networks");
  const over = await opened.page.evaluate(() => [...document.querySelectorAll(".scroll")].map((s) => s.scrollWidth - s.clientWidth));
  assert.equal(over.length, 3);
  assert.deepEqual(over.filter((px) => px > 0), []);
  await close(opened);
});

test("smoke is added up anew for what is looked at, and its percentiles are those of the probes", async () => {
  const opened = await open("weeks", { timezoneId: "Asia/Kathmandu" });
  const { page } = opened;
  const say = (name: string, text: string): number => Number(new RegExp(`${name} ([\\d.]+)`).exec(text)?.[1]);
  const at = async (share: number): Promise<string> => {
    const box = await area(page, "smoke");
    await page.mouse.move(box.x + share * (box.width - 1), box.y + 60);
    return readout(page, "smoke");
  };
  const box = await area(page, "smoke");
  const press = (name: string): Promise<void> => page.locator("#smoke").getByRole("button", { name, exact: true }).click();
  const hour = 1 / 14 / 24;
  // All of it, at noon of the third day: an hour's columns, in the zone of the recording.
  const noon = await at(2 * 24 * hour + 12.5 * hour);
  assert.match(noon, /^2026-06-03 1[12]:\d\d:\d\d to 2026-06-03 1[23]/);
  assert.ok(Math.abs(say("median", noon) - 200) < 4, noon);
  // The fifth day, 15 h: three of ten are lost; 17.5 h: all of them, and no delay is made up.
  assert.ok(Math.abs(say("lost", await at(4 * 24 * hour + 15 * hour)) - 30) < 3);
  const gone = await at(4 * 24 * hour + 17.5 * hour);
  assert.match(gone, /lost 100 % of \d+$/);
  assert.ok(!gone.includes("median"), gone);
  // Dragging over the tenth day looks closer.
  await page.mouse.move(box.x + 9 * 24 * hour * box.width, box.y + 60);
  await page.mouse.down();
  await page.mouse.move(box.x + 10 * 24 * hour * box.width, box.y + 70, { steps: 4 });
  await page.mouse.up();
  await settle(page);
  const morning = await at(0.1);
  assert.match(morning, /^2026-06-10 02:/);
  const seconds = (text: string): number => {
    const [from, to] = [...text.matchAll(/\d{4}-\d\d-\d\d [\d:]{8}/g)].map((m) => Date.parse(`${m[0].replace(" ", "T")}Z`) / 1e3);
    return to! - from!;
  };
  assert.ok(seconds(morning) < seconds(noon), `${morning} after ${noon}`);
  // Dragging with Shift moves the picture with the mouse, and keeps its span.
  await page.mouse.move(box.x + 0.2 * box.width, box.y + 60);
  await page.keyboard.down("Shift");
  await page.mouse.down();
  await page.mouse.move(box.x + 0.6 * box.width, box.y + 60, { steps: 5 });
  await page.mouse.up();
  await page.keyboard.up("Shift");
  await settle(page);
  const earlier = await at(0.5);
  assert.match(earlier, /^2026-06-10 02:/);
  assert.equal(seconds(earlier), seconds(morning));
  await press("All");
  await settle(page);
  // As far out as it goes: one probe of a hundred took a second in the second week. Had columns been averaged, none would say so.
  const slow: number[] = [];
  for (let i = 0; i < 40; i++) slow.push(say("largest", await at(0.52 + (i * 0.47) / 40)));
  assert.ok(slow.filter((v) => Math.abs(v - 1000) < 12).length > 15, String(slow));
  await press("Zoom in");
  await settle(page);
  assert.ok(seconds(await at(0.5)) <= seconds(noon));
  await press("Logarithmic");
  await settle(page);
  assert.match(await at(0.5), /median [\d.]+ ms · 95 % /);
  assert.deepEqual(opened.errors, []);
  await close(opened);
});

/** Heights at which a column of a figure's plot has this colour, as shares of the plot's height from its foot. */
const inked = (page: Page, figure: string, share: number, rgb: number[], within: number): Promise<number[]> =>
  page.evaluate(
    ([figure, share, rgb, within]) => {
      const canvas = document.querySelector<HTMLCanvasElement>(`#${figure} canvas`)!;
      const [whole, over] = [canvas.getBoundingClientRect(), document.querySelector(`#${figure} .u-over`)!.getBoundingClientRect()];
      const ratio = canvas.width / whole.width;
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true })!;
      copy.drawImage(canvas, 0, 0);
      const x = Math.round((over.left - whole.left + share * over.width) * ratio);
      const [top, height] = [Math.round((over.top - whole.top) * ratio), Math.round(over.height * ratio)];
      const { data } = copy.getImageData(x, top, 1, height);
      const found: number[] = [];
      for (let y = 0; y < height; y++) if (data[4 * y + 3]! > 8 && rgb.every((c, i) => Math.abs(c - data[4 * y + i]!) <= within)) found.push(1 - (y + 0.5) / height);
      return found;
    },
    [figure, share, rgb, within] as const,
  );

for (const figure of ["smoke", "over-time"]) {
  test(`${figure} is empty where nothing was probed, and nowhere else`, async () => {
    const opened = await open("gaps");
    const { page } = opened;
    const hex = await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim());
    const rgb = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
    const look = async (from: number, to: number): Promise<void> => {
      const box = await area(page, figure);
      for (let x = 3; x < box.width - 3; x += 1) {
        const t = from + ((to - from) * x) / box.width;
        const edge = (3 * (to - from)) / box.width + 20;
        const away = (gap: [number, number]): number => Math.max(gap[0] - t, t - gap[1]);
        const nearest = Math.min(away([14_400, 18_000]), away([28_800, 28_890]));
        if (Math.abs(nearest) < edge) continue;
        const heights = await inked(page, figure, x / box.width, rgb, 220);
        // Lines of the grid lie across everything: they are few.
        if (nearest < 0) assert.ok(heights.length <= 12, `${heights.length} pixels are drawn at ${t} s, in the gap`);
        else assert.ok(heights.length > 12, `only ${heights.length} pixels are drawn at ${t} s`);
      }
    };
    await look(0, 43_200);
    // The shorter gap is less than a column wide until one looks closer.
    const box = await area(page, figure);
    await page.mouse.move(box.x + (28_000 / 43_200) * box.width, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + (29_600 / 43_200) * box.width, box.y + 70, { steps: 4 });
    await page.mouse.up();
    await settle(page);
    await page.screenshot({ path: join(out, `gaps-${figure}.png`), fullPage: true });
    // The middle of the gap, 845 s of 1600 s from the left.
    await page.mouse.move(box.x + 0.528 * box.width, box.y + box.height / 2);
    assert.match(await readout(page, figure), /no probes/);
    assert.deepEqual(opened.errors, []);
    await close(opened);
  });
}

// In "gaps" no probe takes between 50 and 400 ms: a slope from one to the other would be mass that no probe has.
for (const name of ["adsl", "fiber", "partial", "gaps"]) {
  test(`the drawn distribution of ${name} is the one that is read, everywhere`, async () => {
    const opened = await open(name);
    const { page } = opened;
    const box = await area(page, "distribution");
    // One phase at a time, so that no line hides another.
    const labels = await page.locator("#distribution .tools button").allInnerTexts();
    const phases = labels.filter((label) => label !== "Logarithmic");
    const press = (label: string): Promise<void> => page.locator("#distribution").getByRole("button", { name: label, exact: true }).click();
    let compared = 0;
    for (const phase of phases) {
      for (const other of phases.filter((p) => p !== phase)) await press(other);
      const colour = { Idle: "idle", Download: "down", Upload: "up", Both: "both" }[phase.split(" ")[0]!] ?? "ink";
      const hex = await page.evaluate((name) => getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim(), colour);
      const rgb = [1, 3, 5].map((i) => parseInt(hex.slice(i, i + 2), 16));
      const read = async (x: number): Promise<number> => {
        await page.mouse.move(box.x + x, box.y + box.height / 2);
        const text = await readout(page, "distribution");
        return Number(new RegExp(`${phase} ([\\d.]+) %`).exec(text)?.[1]);
      };
      for (let x = 8; x < box.width - 8; x += 23) {
        const shares = [await read(x - 4), await read(x), await read(x + 4)];
        // Beside a step the line is upright: a level is compared.
        if (Math.max(...shares) - Math.min(...shares) > 0.2) continue;
        await page.mouse.move(0, 0);
        const heights = await inked(page, "distribution", x / box.width, rgb, 40);
        for (const height of heights) assert.ok(Math.abs(100 * height - shares[1]!) < 1.5, `${phase} at ${x} px: drawn at ${100 * height} %, read as ${shares[1]} %`);
        compared += heights.length;
      }
      for (const other of phases.filter((p) => p !== phase)) await press(other);
    }
    assert.ok(compared > 20, String(compared));
    await close(opened);
  });
}

test("the cells of calendars and the bars of days are read by pointer and by keys", async () => {
  const opened = await open("weeks");
  const { page } = opened;
  const figures = page.locator("figure.cells");
  assert.equal(await figures.count(), 3);
  const said = (i: number): Promise<string> => figures.nth(i).locator(".readout").innerText();
  await figures.nth(0).locator("rect.hot").nth(12).hover();
  assert.match(await said(0), /^Mon 12 h: p95 201 ms, median 20\d ms, lost 0 %$/);
  const box = figures.nth(0).locator("[role=img]").first();
  await box.focus();
  await page.keyboard.press("ArrowDown");
  assert.match(await said(0), /^Tue 12 h: p95/);
  await page.keyboard.press("ArrowLeft");
  assert.match(await said(0), /^Tue 11 h: p95 2[01]/);
  await figures.nth(1).locator("rect.out").first().hover();
  assert.match(await said(1), /^2026-06-05 16 h: 0 %$/);
  await figures.nth(2).locator("rect.bar-up").nth(1).hover();
  assert.match(await said(2), /^2026-06-01: upload [\d.]+ MB$/);
  assert.deepEqual(opened.errors, []);
  await close(opened);
});

/** Waits until the packets of that direction are drawn. */
async function drawn(page: Page, name: string): Promise<void> {
  await page.waitForFunction((n) => document.getElementById("bytes-over-time")?.dataset["drawn"] === n, name);
  await settle(page);
}

for (const [width, colorScheme] of [[390, "dark"], [1280, "light"]] as const) {
  test(`a capture of a million packets at ${width} px, ${colorScheme}: draws all four plots, asks for nothing, fits the screen`, async () => {
    const opened = await open("capture", { viewport: { width, height: 800 }, colorScheme });
    const { page } = opened;
    await drawn(page, "192.0.2.1:40000 > 192.0.2.2:80");
    await page.screenshot({ path: join(out, `capture-${width}-${colorScheme}.png`), fullPage: true });
    assert.deepEqual(opened.errors, []);
    assert.deepEqual(opened.requests, []);
    assert.equal(await page.evaluate(() => document.documentElement.scrollWidth - document.documentElement.clientWidth), 0);
    const canvases = await painted(page);
    assert.equal(canvases.length, 4);
    for (const { strong } of canvases) assert.ok(strong > 1000, `a plot has only ${strong} painted pixels`);
    await close(opened);
  });
}

test("a capture is zoomed by dragging and by buttons, all plots together, and shown whole again", async () => {
  const opened = await open("capture");
  const { page } = opened;
  await drawn(page, "192.0.2.1:40000 > 192.0.2.2:80");
  const whole = (await painted(page)).map((p) => p.sum);
  const box = await area(page, "bytes-over-time");
  await page.mouse.move(box.x + box.width * 0.4, box.y + 50);
  await page.mouse.down();
  await page.mouse.move(box.x + box.width * 0.41, box.y + 50, { steps: 5 });
  await page.mouse.up();
  await settle(page);
  const near = (await painted(page)).map((p) => p.sum);
  near.forEach((sum, i) => assert.notEqual(sum, whole[i], `plot ${i} did not zoom`));
  await page.getByRole("button", { name: "Later" }).click();
  await settle(page);
  const later = (await painted(page)).map((p) => p.sum);
  assert.notDeepEqual(later, near);
  await page.mouse.move(box.x + box.width / 2, box.y + 60);
  const said = await readout(page, "bytes-over-time");
  for (const word of ["sent up to", "in flight", "acknowledged", "goodput", "round trip", "of which waiting"]) assert.ok(said.includes(word), said);
  await page.getByRole("button", { name: "All of it" }).click();
  await page.mouse.move(5, 5);
  await settle(page);
  assert.deepEqual((await painted(page)).map((p) => p.sum), whole);
  await close(opened);
});

test("another connection of a capture is drawn when it is chosen", async () => {
  const opened = await open("capture");
  const { page } = opened;
  await drawn(page, "192.0.2.1:40000 > 192.0.2.2:80");
  await page.getByLabel("Connection", { exact: true }).selectOption("1");
  await drawn(page, "192.0.2.1:40001 > 192.0.2.2:80");
  assert.deepEqual(opened.errors, []);
  await close(opened);
});

test("without a script a capture is drawn by static plots", async () => {
  const opened = await open("capture", { javaScriptEnabled: false });
  assert.equal(await opened.page.locator(".static svg:visible").count(), 4);
  await close(opened);
});

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

test("marked moments have a line, and the cursor reads their texts", async () => {
  const opened = await open("weeks");
  const { page } = opened;
  for (const figure of ["over-time", "smoke"]) {
    const box = await area(page, figure);
    for (const [days, text] of [[7, "The router was changed"], [12.5, "<b>a call</b>"]] as const) {
      await page.mouse.move(box.x + (days / 14) * box.width, box.y + box.height / 2);
      assert.ok((await readout(page, figure)).includes(`marked ${text}`), `${figure}: ${await readout(page, figure)}`);
    }
    await page.mouse.move(box.x + (9 / 14) * box.width, box.y + box.height / 2);
    assert.doesNotMatch(await readout(page, figure), /marked/);
  }
  await page.screenshot({ path: join(out, "moments.png"), fullPage: true });
  assert.deepEqual(opened.errors, []);
  await close(opened);
});

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

test("a live page shows the state of its targets, and draws newer plots when they come", async () => {
  const context = await browser.newContext();
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (e) => errors.push(String(e)));
  const html = readFileSync(join(out, "live.html"), "utf8");
  const target = { name: "gateway", rtt_ms: 12.5, ipdv_ms: 0.25, sent: 200, lost: 1, outage_s: 11.2, trouble: null, seconds: [{ at_s: 0, mean_ms: 12, max_ms: 13, lost: 0 }] };
  const state = { elapsed_s: 3700, page: 1, interface: null, down_bps: null, up_bps: null, targets: [target] };
  let pages = 0;
  await page.route("http://monitor.test/**", (route) => {
    if (new URL(route.request().url()).pathname === "/live.json") return route.fulfill({ json: state });
    pages += 1;
    return route.fulfill({ contentType: "text/html", body: pages === 1 ? html : html.replaceAll("A fortnight", "A newer fortnight") });
  });
  await page.clock.install();
  await page.goto("http://monitor.test/");
  const row = page.locator("#live tbody tr");
  await row.waitFor();
  // Probed every other second: seconds without an answer are red in an outage only. Users saw red stripes where nothing was lost.
  const red = row.locator("rect.lossy");
  const seconds = Array.from({ length: 60 }, (_, i) => ({ at_s: i, mean_ms: i % 2 ? 12 : null, max_ms: i % 2 ? 13 : null, lost: Number(i === 7) }));
  const before = { ...target };
  Object.assign(target, { outage_s: null, seconds });
  await page.clock.runFor(1_100);
  await page.waitForFunction(() => document.querySelectorAll("#live rect").length === 30);
  assert.equal(await red.count(), 1);
  Object.assign(target, { outage_s: 20, seconds: seconds.map((s) => (s.at_s > 39 ? { ...s, mean_ms: null, max_ms: null } : s)) });
  await page.clock.runFor(1_100);
  await page.waitForFunction(() => document.querySelectorAll("#live rect").length === 40);
  assert.equal(await red.count(), 21);
  Object.assign(target, before);
  await page.clock.runFor(1_100);
  await page.waitForFunction(() => document.querySelectorAll("#live rect").length === 1);
  assert.match(await row.innerText(), /gateway\s+no answer for 11 s\s+12\.5 ms\s+0\.25 ms\s+1 of 200 \(0\.5 %\)/);
  await page.waitForFunction(() => document.querySelectorAll("canvas").length >= 2);
  const canvases = await page.locator("canvas").count();
  state.page = 2;
  await page.clock.runFor(61_000);
  await page.getByRole("heading", { level: 1, name: "A newer fortnight" }).waitFor();
  await page.waitForFunction((n) => document.querySelectorAll("canvas").length === n, canvases);
  assert.equal(await row.count(), 1);
  assert.deepEqual([pages, errors], [2, []]);
  await context.close();
});

test("a live page draws each probe where few are looked at, and the bounds again where there are many", async () => {
  const context = await browser.newContext({ viewport: { width: 1280, height: 900 } });
  const page = await context.newPage();
  const errors: string[] = [];
  page.on("pageerror", (e) => errors.push(String(e)));
  const html = readFileSync(join(out, "live.html"), "utf8");
  const state = { elapsed_s: 3700, page: 1, interface: null, down_bps: null, up_bps: null, targets: [] };
  const asked: [number, number][] = [];
  await page.route("http://monitor.test/**", (route) => {
    const { pathname } = new URL(route.request().url());
    if (pathname === "/live.json") return route.fulfill({ json: state });
    if (!pathname.startsWith("/probes/")) return route.fulfill({ contentType: "text/html", body: html });
    const [from, to] = pathname.split("/").slice(2).map(Number) as [number, number];
    asked.push([from, to]);
    // The first answer is not there yet.
    if (asked.length === 1) return route.fulfill({ contentType: "application/json", body: "null" });
    const span = (to - from) / 1e3;
    const at = (share: number): number => share * span;
    const probes = { t_s: [0, 0.25, 0.5, 0.75, 1].map(at), ms: [30, 30, null, 70, 70] };
    return route.fulfill({ json: { probes, lost_s: [at(0.5)], bins: { step_s: span, down_bps: [1e6], up_bps: [2e6] } } });
  });
  await page.goto("http://monitor.test/");
  await page.waitForFunction(() => document.querySelectorAll("canvas").length >= 3);
  const says = page.locator("#over-time .single");
  assert.match(await says.innerText(), /^Columns of many probes\. Zoom in to [\d.]+ \w+ or less to see each probe\.$/);
  for (let i = 0; i < 12 && /Zoom in/.test(await says.innerText()); i++) {
    const box = await area(page, "over-time");
    await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 3 });
    await page.mouse.up();
    await settle(page);
  }
  await page.waitForFunction(() => /^Each probe is drawn: 5 from .*, 1 of them lost\.$/.test(document.querySelector("#over-time .single")!.textContent!));
  await settle(page);
  assert.ok(asked.length >= 2 && asked.every(([from, to]) => from < to && Number.isInteger(from)), String(asked));
  const box = await area(page, "over-time");
  await page.mouse.move(box.x + box.width * 0.1, box.y + box.height / 2);
  assert.match(await readout(page, "over-time"), /download 1 Mbit\/s · upload 2 Mbit\/s$/);
  assert.doesNotMatch(await readout(page, "over-time"), /median/);
  // 30 ms before the loss and 70 ms after it, of an axis that ends at 78.4 ms.
  await page.mouse.move(0, 0);
  const ink = await page.evaluate(() => getComputedStyle(document.documentElement).getPropertyValue("--ink").trim());
  const rgb = [1, 3, 5].map((i) => parseInt(ink.slice(i, i + 2), 16));
  const [left, right] = [await inked(page, "over-time", 0.1, rgb, 60), await inked(page, "over-time", 0.9, rgb, 60)];
  assert.ok(left.length > 0 && left.every((h) => Math.abs(h - 30 / 78.4) < 0.02), `30 ms are drawn at ${left}`);
  assert.ok(right.length > 0 && right.every((h) => Math.abs(h - 70 / 78.4) < 0.02), `70 ms are drawn at ${right}`);
  await page.locator("#over-time").getByRole("button", { name: "All", exact: true }).click();
  await settle(page);
  assert.match(await says.innerText(), /^Columns of many probes/);
  await page.mouse.move(box.x + box.width * 0.5, box.y + box.height / 2);
  assert.match(await readout(page, "over-time"), /median/);
  assert.deepEqual(errors, []);
  await context.close();
});

test("a mark of losses is as strong as the share that was lost", async () => {
  const opened = await open("weeks");
  const { page } = opened;
  // Lost: all from 16 h to 19 h and 30 % from 14 h to 16 h of the fifth of 14 days, and nothing else.
  const marks = await page.evaluate(() => {
    const canvas = document.querySelector<HTMLCanvasElement>("#over-time canvas")!;
    const over = document.querySelector("#over-time .u-over")!.getBoundingClientRect();
    const whole = canvas.getBoundingClientRect();
    const ratio = canvas.width / whole.width;
    const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d", { willReadFrequently: true })!;
    copy.drawImage(canvas, 0, 0);
    const [left, width, y] = [(over.left - whole.left) * ratio, over.width * ratio, (over.top - whole.top + 3) * ratio];
    const { data } = copy.getImageData(Math.round(left), Math.round(y), Math.round(width), 1);
    return Array.from({ length: Math.round(width) }, (_, x) => (data[4 * x]! - data[4 * x + 1]! > 60 ? 1 : 0));
  });
  const at = (day: number, hour: number): number => Math.round(((day + hour / 24) / 14) * marks.length);
  const count = (from: number, to: number): number => marks.slice(from, to).reduce<number>((sum, n) => sum + n, 0);
  assert.ok(count(at(4, 14.5), at(4, 18.5)) >= 0.9 * (at(4, 18.5) - at(4, 14.5)), String(marks));
  assert.equal(count(0, at(4, 12)) + count(at(4, 21), marks.length), 0, String(marks));
  await close(opened);
});

test("a page of a file names the command that draws each probe of what is looked at", async () => {
  const opened = await open("weeks");
  const { page } = opened;
  const says = page.locator("#over-time .single");
  for (let i = 0; i < 12 && /Zoom in/.test(await says.innerText()); i++) {
    const box = await area(page, "over-time");
    await page.mouse.move(box.x + box.width * 0.4, box.y + 60);
    await page.mouse.down();
    await page.mouse.move(box.x + box.width * 0.6, box.y + 60, { steps: 3 });
    await page.mouse.up();
    await settle(page);
  }
  assert.match(await says.innerText(), /^Draw each probe of this time: tailback report RECORDING --from \d{4}-\d\d-\d\dT[\d:]{8}Z --to \d{4}-\d\d-\d\dT[\d:]{8}Z -o close-up\.html$/);
  assert.deepEqual(opened.requests, []);
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

test("no heading, caption or button lies on a figure, whatever the width", async () => {
  for (const name of ["adsl", "partial", "weeks", "networks", "gaps", "capture"]) {
    for (const width of [390, 1280]) {
      const opened = await open(name, { viewport: { width, height: 900 } });
      const covered = await opened.page.evaluate(() => {
        const box = (e: Element): DOMRect => e.getBoundingClientRect();
        const drawn = [...document.querySelectorAll("canvas, figure svg")].filter((e) => box(e).width > 100 && box(e).height > 50);
        const words = [...document.querySelectorAll("h1, h2, h3, h4, figcaption, figure button, p, summary")].filter((e) => box(e).height > 0);
        const overlap = (a: DOMRect, b: DOMRect): boolean => a.left < b.right - 1 && b.left < a.right - 1 && a.top < b.bottom - 1 && b.top < a.bottom - 1;
        return { figures: drawn.length, on: words.flatMap((w) => drawn.filter((d) => !w.contains(d) && !d.contains(w) && overlap(box(w), box(d))).map(() => w.outerHTML.slice(0, 120))) };
      });
      assert.ok(covered.figures > 0, name);
      assert.deepEqual(covered.on, [], `${name} at ${width} px`);
      await close(opened);
    }
  }
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

test("the notebook's plot tells the values under the pointer, and a drag asks for the span between its ends", async () => {
  const script = readFileSync(resolve(crate, "../../python/tailback/_explore.js"), "utf8");
  const svg = readFileSync(join(out, "adsl-rtt.svg"), "utf8");
  const page = await browser.newPage({ viewport: { width: 900, height: 600 } });
  await page.setContent("<div id=plot></div>");
  await page.evaluate(
    async ([script, svg]) => {
      const traits: Record<string, unknown> = { svg, span: [], trouble: "" };
      const model = { get: (name: string) => traits[name], set: (name: string, value: unknown) => (traits[name] = value), save_changes: () => undefined, on: () => undefined };
      const url = URL.createObjectURL(new Blob([script as string], { type: "text/javascript" }));
      (await import(url)).default.render({ model, el: document.querySelector("#plot") });
      Object.assign(window, { traits });
    },
    [script, svg],
  );
  const span = (): Promise<string[]> => page.evaluate(() => (window as unknown as { traits: { span: string[] } }).traits.span);
  const axes = JSON.parse((await page.locator("#plot svg").getAttribute("data-axes"))!);
  const box = (await page.locator("#plot svg").boundingBox())!;
  const scale = box.width / 880;
  const at = (part: number): number => box.x + (axes.left + part * axes.width) * scale;
  const [panel] = axes.panels;
  const middle = box.y + (panel.top + panel.height / 2) * scale;
  await page.mouse.move(at(0.25), middle);
  const told = await page.locator("#plot [role=status]").textContent();
  const value = Number(told!.split(": ").at(-1));
  assert.ok(Math.abs(value - (panel.y.from + panel.y.to) / 2) < 0.01 * panel.y.to, told!);
  await page.mouse.down();
  await page.mouse.move(at(0.5), middle, { steps: 3 });
  await page.mouse.up();
  const seconds = (await span()).map((ns) => Number(BigInt(ns) - BigInt(axes.x.origin_ns)) / 1e9);
  for (const [i, part] of [0.25, 0.5].entries()) assert.ok(Math.abs(seconds[i]! - part * axes.x.to) < 0.01 * axes.x.to, String(seconds));
  await page.mouse.dblclick(at(0.7), middle);
  assert.deepEqual(await span(), []);
  await page.close();
});

test("targets stand below the groups that they belong to, in the order in which they were given", () => {
  const targets = [
    { name: "a", group: "Home/Rooms" },
    { name: "b", group: null },
    { name: "c", group: "Home" },
    { name: "d", group: "Provider" },
    { name: "e", group: "Home/Rooms" },
  ];
  const told = lines(targets).map((l) => `${"  ".repeat(l.depth)}${l.group ?? "-"} ${l.targets.map((t) => t.name).join("")}`);
  assert.deepEqual(told, ["- b", "Home cae", "  - c", "  Rooms ae", "    - a", "    - e", "Provider d", "  - d"]);
});

test("a film of a queue plays, stops at its end, and follows the slider", async () => {
  const { page, errors, requests } = await open("film");
  const says = page.locator("#film .evidence");
  assert.match((await says.textContent()) ?? "", /^At 0\.00 s: 0 packets/);
  const full = page.locator("#film .place.full");
  assert.equal(await full.count(), 0);
  await page.getByRole("slider", { name: "Time" }).fill("120");
  assert.match((await says.textContent()) ?? "", /packets \(/);
  assert.ok((await full.count()) > 20, "boxes are full");
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForTimeout(700);
  await page.getByRole("button", { name: "Pause" }).click();
  const at = Number(await page.getByRole("slider", { name: "Time" }).inputValue());
  assert.ok(at > 125 && at < 600, String(at));
  await page.screenshot({ path: join(out, "film.png") });
  await page.getByRole("slider", { name: "Time" }).fill("1998");
  await page.getByRole("button", { name: "Play" }).click();
  await page.waitForTimeout(400);
  assert.equal(await page.getByRole("button", { name: "Play" }).count(), 1);
  assert.deepEqual([errors, requests], [[], []]);
  await page.context().close();
});
