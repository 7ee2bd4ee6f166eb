// A plot that can be read and zoomed. The command draws it; this script knows its axes by the attribute `data-axes`.

/** Value of an axis at a place from 0 to 1 along it. */
const at = (axis, part) =>
  axis.logarithmic ? axis.from * (axis.to / axis.from) ** part : axis.from + (axis.to - axis.from) * part;

/** Instant of seconds after the axis's origin, UNIX ns. */
const instant = (axis, seconds) => BigInt(axis.origin_ns) + BigInt(Math.round(seconds * 1e9));

/** Text of a value with its axis's name. */
function named(axis, value) {
  if (axis.origin_ns) return new Date(Number(instant(axis, value) / 1000000n)).toISOString();
  return `${axis.name || "value"}: ${Number((value / axis.size).toPrecision(4))}`;
}

function render({ model, el }) {
  const frame = document.createElement("div");
  const brush = document.createElement("div");
  const told = document.createElement("div");
  frame.style.cssText = "position:relative;max-width:880px;touch-action:none;cursor:crosshair";
  brush.style.cssText = "position:absolute;top:0;bottom:0;display:none;background:#1a6bb0;opacity:.2;pointer-events:none";
  told.style.cssText = "font:12px system-ui,sans-serif;min-height:1.4em";
  told.setAttribute("role", "status");
  el.replaceChildren(frame, told);
  let svg;
  let axes;
  let begin;

  const draw = () => {
    frame.innerHTML = model.get("svg");
    frame.append(brush);
    svg = frame.querySelector("svg");
    svg.removeAttribute("height");
    svg.setAttribute("width", "100%");
    axes = svg.dataset.axes ? JSON.parse(svg.dataset.axes) : undefined;
    say(axes?.x.origin_ns ? "Drag to zoom; double-click for the whole." : "");
  };
  const say = (text) => {
    told.textContent = model.get("trouble") || text;
  };
  /** Place of a pointer in the plot's own pixels. */
  const place = (event) => {
    const box = svg.getBoundingClientRect();
    const scale = svg.viewBox.baseVal.width / box.width;
    return { x: (event.clientX - box.left) * scale, y: (event.clientY - box.top) * scale, scale };
  };
  const part = (x) => Math.min(Math.max((x - axes.left) / axes.width, 0), 1);

  frame.onpointermove = (event) => {
    if (!axes) return;
    const { x, y, scale } = place(event);
    const panel = axes.panels.find((p) => p.top <= y && y <= p.top + p.height);
    const texts = [named(axes.x, at(axes.x, part(x)))];
    if (panel?.y.name) texts.push(named(panel.y, at(panel.y, 1 - (y - panel.top) / panel.height)));
    say(texts.join(" · "));
    if (begin === undefined) return;
    const ends = [begin, x].map((px) => axes.left + part(px) * axes.width).sort((a, b) => a - b);
    brush.style.display = "block";
    brush.style.left = `${ends[0] / scale}px`;
    brush.style.width = `${(ends[1] - ends[0]) / scale}px`;
  };
  frame.onpointerdown = (event) => {
    if (axes?.x.origin_ns) begin = place(event).x;
    frame.setPointerCapture(event.pointerId);
    event.preventDefault();
  };
  frame.onpointerup = (event) => {
    brush.style.display = "none";
    if (begin === undefined) return;
    const ends = [begin, place(event).x].sort((a, b) => a - b);
    begin = undefined;
    // A click is no span.
    if (ends[1] - ends[0] < 5) return;
    model.set("span", ends.map((px) => String(instant(axes.x, at(axes.x, part(px))))));
    model.save_changes();
  };
  frame.ondblclick = () => {
    model.set("span", []);
    model.save_changes();
  };
  model.on("change:svg", draw);
  model.on("change:trouble", () => say(""));
  draw();
}

export default { render };
