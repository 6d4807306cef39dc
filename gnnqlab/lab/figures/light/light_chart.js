"use strict";
// Draws the charts of players as SVG, from Plotly's JSON without Plotly: 20 kB in place of 4.6 MB, and 60 frames a second.
// It knows what the players use; light_chart.py refuses the rest when a page is written.
// drawChart(host, figure, look) returns a function that changes values of one trace.

const SVG = "http://www.w3.org/2000/svg";
const DASHES = { solid: "", dash: "8 5", dot: "2 4", dashdot: "8 4 2 4", longdash: "14 6" };
const SYMBOLS = {
  circle: "M-1 0A1 1 0 1 1 1 0A1 1 0 1 1 -1 0Z",
  square: "M-.89-.89H.89V.89H-.89Z",
  diamond: "M0-1.3L1.3 0L0 1.3L-1.3 0Z",
  "triangle-up": "M0-1.15L1.1.75H-1.1Z",
  "triangle-down": "M0 1.15L1.1-.75H-1.1Z",
  cross: "M-.35-1H.35V-.35H1V.35H.35V1H-.35V.35H-1V-.35H-.35Z",
  x: "M0-.45L.55-1L1-.55L.45 0L1 .55L.55 1L0 .45L-.55 1L-1 .55L-.45 0L-1-.55L-.55-1Z",
  star: "M0-1.3L.3-.4H1.25L.48.16L.78 1.05L0 .5L-.78 1.05L-.48.16L-1.25-.4H-.3Z",
};
const PATTERNS = {
  "/": "M-1 1L1-1M0 6L6 0M5 7L7 5", "\\": "M-1 5L1 7M0 0L6 6M5-1L7 1", x: "M0 6L6 0M0 0L6 6",
  "-": "M0 3H6", "|": "M3 0V6", "+": "M3 0V6M0 3H6", ".": "M3 2a1 1 0 1 0 .01 0Z",
};
const at = (value, number) => (Array.isArray(value) ? value[number] : value);
const isNumber = (value) => typeof value === "number" && Number.isFinite(value);
const plain = (text) => String(text ?? "").replace(/<[^>]+>/g, "");
const pen = document.createElement("canvas").getContext("2d");
const lines = (text) => String(text ?? "").split(/<br\s*\/?>/);
let patternCount = 0;

function widthOf(text, size, family) {
  pen.font = `${size}px ${family}`;
  return Math.max(0, ...lines(text).map((line) => pen.measureText(plain(line)).width));
}

function element(name, attributes, parent) {
  const made = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes))
    if (value !== undefined && value !== null && value !== "") made.setAttribute(key, value);
  parent?.append(made);
  return made;
}

// Text of one or more lines; `anchor` is start, middle or end, `vertical` is top, middle or bottom.
function write(parent, text, x, y, { size = 12, color, anchor = "middle", vertical = "middle", turn = 0, bold = false }) {
  const all = lines(text);
  const height = size * 1.25;
  const first = { top: size, middle: size * 0.36 - ((all.length - 1) * height) / 2, bottom: -size * 0.2 - (all.length - 1) * height };
  const made = element("text", {
    "font-size": size, fill: color, "text-anchor": anchor, "font-weight": bold || /^<b>/.test(all[0]) ? 600 : undefined,
    transform: `translate(${x.toFixed(1)} ${y.toFixed(1)})${turn ? ` rotate(${turn})` : ""}`,
  }, parent);
  all.forEach((line, number) => {
    element("tspan", { x: 0, y: (first[vertical] + number * height).toFixed(1) }, made).textContent = plain(line);
  });
  return made;
}

function niceTicks(low, high, count) {
  const rough = Math.abs(high - low) / Math.max(count, 1) || 1;
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((each) => each * power >= rough * 0.999);
  return stepTicks(low, high, step);
}

function stepTicks(low, high, step) {
  const [from, to] = low < high ? [low, high] : [high, low];
  const found = [];
  for (let each = Math.ceil(from / step - 1e-9); each * step <= to + step * 1e-9; each += 1) found.push(each * step);
  return found;
}

function shortNumber(value) {
  if (value !== 0 && (Math.abs(value) >= 1e5 || Math.abs(value) < 1e-3)) {
    const [digits, power] = value.toExponential(1).split("e");
    const raised = String(Number(power)).replace(/[-0-9]/g, (each) => "⁻⁰¹²³⁴⁵⁶⁷⁸⁹"["-0123456789".indexOf(each)]);
    return `${Number(digits)}·10${raised}`;
  }
  return String(Number(value.toPrecision(4))).replace(/(\d)(?=(\d{3})+$)/g, "$1\u202f").replace("-", "−");
}

// Position on an axis: numbers, logarithms, or the numbers of categories.
function makeAxis(name, layout, traces, look, isX) {
  const own = { ...look.axes, ...layout[name] };
  const letter = isX ? "x" : "y";
  const key = name.replace("axis", "");
  const shown = traces.filter((trace) => (trace[`${letter}axis`] ?? letter) === key && trace.visible !== false);
  const values = shown.flatMap((trace) => (trace.type === "heatmap" && !trace[letter] ? [] : trace[letter] ?? []));
  const isCategory = own.type === "category" || (own.type !== "log" && values.some((each) => typeof each === "string"));
  const categories = [...new Set([...(own.categoryarray ?? []), ...(isCategory ? values.map(String) : [])])];
  const place = (value) => {
    if (isCategory) return typeof value === "number" && !categories.includes(String(value)) ? value : categories.indexOf(String(value));
    return own.type === "log" ? Math.log10(value) : value;
  };
  let range = own.range;
  if (!range) {
    const found = [];
    let touchesZero = own.rangemode === "tozero";
    for (const trace of shown) {
      const isLength = trace.type === "bar" && (trace.orientation === "h") === isX;
      (trace[letter] ?? []).forEach((value, number) => {
        const base = isLength ? Number(at(trace.base, number) ?? 0) : 0;
        if (isLength) touchesZero ||= !trace.base;
        if (value !== null && value !== undefined) found.push(place(isLength && !isCategory ? base + value : value));
      });
    }
    if (layout.barmode === "stack") found.push(...stackedEnds(shown, isX).map(place));
    const real = found.filter(Number.isFinite);
    let [low, high] = real.length ? [Math.min(...real), Math.max(...real)] : [0, 1];
    if (isCategory || shown.some((trace) => trace.type === "heatmap")) [low, high] = [low - 0.5, high + 0.5];
    else {
      const space = (high - low || Math.abs(high) || 1) * 0.06;
      const [isLowZero, isHighZero] = [touchesZero && low >= 0, touchesZero && high <= 0];
      [low, high] = [isLowZero ? 0 : low - space, isHighZero ? 0 : high + space];
      if (own.rangemode === "nonnegative") low = Math.max(low, 0);
    }
    range = own.autorange === "reversed" ? [high, low] : [low, high];
  }
  return { name, own, isX, range, place, categories, isCategory, domain: own.domain ?? [0, 1] };
}

function stackedEnds(traces, isX) {
  const sums = new Map();
  for (const trace of traces.filter((each) => each.type === "bar" && (each.orientation === "h") === isX))
    (isX ? trace.y : trace.x).forEach((key, number) => sums.set(key, (sums.get(key) ?? 0) + ((isX ? trace.x : trace.y)[number] ?? 0)));
  return [...sums.values()];
}

function ticksOf(axis, pixels) {
  const { own, range, isCategory, categories } = axis;
  if (own.tickvals) return own.tickvals.map((value, number) => [axis.place(value), own.ticktext?.[number] ?? shortNumber(value)]);
  if (isCategory) {
    const every = Math.max(1, Math.ceil((categories.length * (axis.isX ? 24 : 15)) / pixels));
    return categories.map((name, number) => [number, name]).filter((_, number) => number % every === 0);
  }
  const count = Math.min(own.nticks ?? 99, Math.max(2, Math.floor(pixels / (axis.isX ? 80 : 45))));
  if (own.type === "log") {
    const powers = stepTicks(...range, Math.max(1, Math.ceil(Math.abs(range[1] - range[0]) / count)));
    return (powers.length > 1 ? powers : niceTicks(...range, count)).map((each) => [each, shortNumber(10 ** each)]);
  }
  const found = own.dtick && Math.abs(range[1] - range[0]) / own.dtick <= 2 * count ? stepTicks(...range, own.dtick) : niceTicks(...range, count);
  return found.map((each) => [each, shortNumber(each)]);
}

function drawChart(host, figure, look) {
  const { data, layout } = figure;
  const family = getComputedStyle(host).fontFamily;
  const width = Math.max(host.clientWidth, 280);
  const fontSize = layout.font?.size ?? 13;
  const ink = look.ink;
  const shrunk = Math.min(1, Math.max(0.7, width / 560)); // markers on a phone
  const margin = { l: 56, r: 16, t: 46, b: 48, ...layout.margin };
  const names = ["x", "y"].map((letter) => {
    const used = data.filter((trace) => trace.type !== "pie").map((trace) => (trace[`${letter}axis`] ?? letter).replace(letter, `${letter}axis`));
    return [...new Set(used)];
  });
  const axes = {};
  names.forEach((list, isY) => list.forEach((name) => (axes[name] = makeAxis(name, layout, data, look, !isY))));

  // The legend wraps to the width, above the plot or below it, and takes the space that it needs.
  const named = data.filter((trace) => {
    if (layout.showlegend === false || trace.showlegend === false || !trace.name || trace.visible === false) return false;
    if (!["scatter", "bar"].includes(trace.type)) return false;
    return trace.type === "scatter" || (trace.x ?? []).length > 0;
  });
  const legend = named.length > 1 || named.some((trace) => trace.showlegend) ? named : [];
  const places = [];
  let [legendX, legendRow] = [0, 0];
  for (const trace of legend) {
    const length = 34 + widthOf(trace.name, 12, family);
    if (legendX && legendX + length > width - 24) [legendX, legendRow] = [0, legendRow + 1];
    places.push([legendX, legendRow]);
    legendX += length;
  }
  const legendHeight = legend.length ? 20 * (legendRow + 1) + 6 : 0;
  const isBelow = layout.legend?.yanchor === "bottom" && layout.legend?.yref === "container" || (layout.legend?.y ?? 1.02) < 0;
  const title = layout.title?.text ? 30 : 6;
  const hasTitles = Object.values(axes).some((axis) => axis.isX && axis.own.visible !== false && axis.own.title?.text);
  const hasTicks = Object.values(axes).some((axis) => axis.isX && axis.own.visible !== false);
  margin.t = title + (isBelow ? 0 : legendHeight) + ((layout.annotations ?? []).some((note) => note.yref === "paper" && note.y >= 1) ? 20 : 8);
  margin.b = (hasTicks ? 28 : 6) + (hasTitles ? 20 : 0) + (isBelow ? legendHeight : 0);
  // A figure keeps the height of its plot in Plotly, where margins are about 100 pixels.
  const height = Math.max((layout.height ?? 360) - (layout.margin?.b ?? 52) - (layout.margin?.t ?? 64), 120) + margin.t + margin.b;
  for (const axis of Object.values(axes)) {
    if (axis.isX || axis.own.visible === false || axis.domain[0] > axis.domain[1]) continue;
    const anchored = axes[(axis.own.anchor ?? "x").replace("x", "xaxis")];
    if ((anchored?.domain[0] ?? 0) > 0.05) continue; // inner axes have the gap between panels
    const labels = ticksOf(axis, (height - margin.t - margin.b) * (axis.domain[1] - axis.domain[0]));
    const widest = Math.max(0, ...labels.map(([, text]) => widthOf(text, 12, family)));
    axis.needs = widest + 14 + (axis.own.title?.text ? 20 : 0);
  }
  const needs = Object.values(axes).map((axis) => axis.needs ?? 0);
  margin.l = Math.max(10, ...needs);
  const plot = { x: margin.l, y: margin.t, width: width - margin.l - margin.r, height: height - margin.t - margin.b };

  for (const axis of Object.values(axes)) {
    const [low, high] = axis.domain;
    const isFree = axis.isX && axis.own.visible === false && low === 0 && high === 1; // a drawing needs no room for labels
    axis.span = isFree ? [10, width - 10] : axis.isX
      ? [plot.x + low * plot.width, plot.x + high * plot.width]
      : [plot.y + (1 - low) * plot.height, plot.y + (1 - high) * plot.height];
  }
  for (const axis of Object.values(axes)) {
    if (!axis.own.scaleanchor) continue; // as many pixels per unit on both axes
    const other = axes[axis.own.scaleanchor.replace(/^[xy]/, (letter) => `${letter}axis`)];
    const scale = Math.min(...[axis, other].map(({ span, range }) => Math.abs((span[1] - span[0]) / (range[1] - range[0]))));
    for (const each of [axis, other]) {
      const [middle, half] = [(each.span[0] + each.span[1]) / 2, (scale * Math.abs(each.range[1] - each.range[0])) / 2];
      each.span = each.span[1] > each.span[0] ? [middle - half, middle + half] : [middle + half, middle - half];
    }
  }
  for (const axis of Object.values(axes)) {
    const { span, range } = axis;
    axis.unit = (span[1] - span[0]) / (range[1] - range[0]);
    axis.pixel = (value) => span[0] + (axis.place(value) - range[0]) * axis.unit;
    axis.raw = (value) => span[0] + (value - range[0]) * axis.unit;
  }
  const axisOf = (trace, letter) => axes[(trace[`${letter}axis`] ?? letter).replace(letter, `${letter}axis`)];

  const svg = element("svg", { viewBox: `0 0 ${width} ${height}`, width: "100%", height, role: "presentation", "font-family": family });
  const defs = element("defs", {}, svg);

  function fillOf(marker, number, fallback) {
    const color = at(marker?.color, number) ?? fallback;
    const shape = at(marker?.pattern?.shape, number);
    if (!shape || !PATTERNS[shape]) return color;
    const id = `pattern${(patternCount += 1)}`;
    const made = element("pattern", { id, width: 6, height: 6, patternUnits: "userSpaceOnUse" }, defs);
    element("rect", { width: 6, height: 6, fill: color }, made);
    const stroke = at(marker.pattern.fgcolor, number) ?? (isPale(color) ? "#1f2328" : "#ffffff");
    element("path", { d: PATTERNS[shape], stroke, fill: shape === "." ? stroke : "none", "stroke-opacity": 0.75, "stroke-width": 1 }, made);
    return `url(#${id})`;
  }

  for (const axis of Object.values(axes)) drawAxis(axis);
  function drawAxis(axis) {
    const { own, isX, span } = axis;
    if (own.visible === false) return;
    const cross = axes[(own.anchor ?? (isX ? "y" : "x")).replace(/^[xy]/, (letter) => `${letter}axis`)] ?? Object.values(axes).find((each) => each.isX !== isX);
    const [edge, far] = cross.span; // the axis lies at the start of the other one
    const group = element("g", { stroke: look.axis, "stroke-width": 1 }, svg);
    let lastEnd = -Infinity;
    for (const [value, text] of ticksOf(axis, Math.abs(span[1] - span[0]))) {
      const spot = axis.raw(value);
      if (spot < Math.min(...span) - 1 || spot > Math.max(...span) + 1) continue;
      const ends = isX ? { x1: spot, x2: spot, y1: edge, y2: far } : { y1: spot, y2: spot, x1: edge, x2: far };
      if (own.showgrid !== false) element("line", { ...ends, stroke: look.grid }, group);
      const size = Math.min(own.tickfont?.size ?? 12, 12);
      if (isX) {
        const half = widthOf(text, size, family) / 2;
        if (spot - half < lastEnd + 4) continue; // labels never overlap
        lastEnd = spot + half;
        element("line", { x1: spot, x2: spot, y1: edge, y2: edge + 4 }, group);
        write(svg, text, Math.min(spot, width - half - 1), edge + 6, { size, color: ink, vertical: "top" });
      } else {
        element("line", { y1: spot, y2: spot, x1: edge, x2: edge - 4 }, group);
        write(svg, text, edge - 7, spot, { size, color: ink, anchor: "end" });
      }
    }
    element("line", isX ? { x1: span[0], x2: span[1], y1: edge, y2: edge } : { y1: span[0], y2: span[1], x1: edge, x2: edge }, group);
    const label = own.title?.text;
    if (!label) return;
    const middle = (span[0] + span[1]) / 2;
    if (isX) write(svg, label, middle, edge + 26, { size: 12, color: ink, vertical: "top" });
    else write(svg, label, Math.max(edge - (axis.needs ?? 50) + 8, 8), middle, { size: 12, color: ink, turn: -90 });
  }

  const offsets = new Map(); // stacked bars: end of the bars so far
  const groupsOfTraces = data.map(() => element("g", {}, svg));
  data.forEach((trace, number) => drawTrace(number));

  function drawTrace(number) {
    const trace = data[number];
    const group = groupsOfTraces[number];
    group.replaceChildren();
    if (trace.visible === false || trace.opacity === 0) return;
    if (trace.opacity !== undefined) group.setAttribute("opacity", trace.opacity);
    ({ scatter: drawScatter, bar: drawBars, heatmap: drawHeatmap, image: drawImage })[trace.type](trace, group);
  }

  function drawScatter(trace, group) {
    const [xAxis, yAxis] = [axisOf(trace, "x"), axisOf(trace, "y")];
    const mode = trace.mode ?? "lines";
    const spots = (trace.x ?? []).map((x, number) => {
      const y = trace.y[number];
      return x === null || y === null || x === undefined || y === undefined ? null : [xAxis.pixel(x), yAxis.pixel(y)];
    });
    if (mode.includes("lines")) {
      let path = "";
      let before = null;
      for (const spot of spots) {
        if (spot) {
          const [x, y] = spot.map((each) => each.toFixed(1));
          path += !before ? `M${x} ${y}` : trace.line?.shape === "hv" ? `H${x}V${y}` : `L${x} ${y}`;
        }
        before = spot;
      }
      element("path", { d: path, fill: "none", stroke: trace.line?.color ?? trace.marker?.color ?? ink, "stroke-width": trace.line?.width ?? 2, "stroke-dasharray": DASHES[trace.line?.dash], "stroke-linejoin": "round" }, group);
    }
    spots.forEach((spot, number) => {
      if (!spot) return;
      const size = (at(trace.marker?.size, number) ?? 6) * shrunk;
      if (mode.includes("markers")) {
        const symbol = String(at(trace.marker?.symbol, number) ?? "circle");
        const isOpen = symbol.endsWith("-open");
        const color = at(trace.marker?.color, number) ?? ink;
        const rim = trace.marker?.line ?? {};
        element("path", {
          d: SYMBOLS[symbol.replace("-open", "")] ?? SYMBOLS.circle,
          transform: `translate(${spot[0].toFixed(1)} ${spot[1].toFixed(1)}) scale(${size / 2})`,
          fill: isOpen ? "none" : color, stroke: isOpen ? color : at(rim.color, number) ?? "none",
          "stroke-width": (isOpen ? 2 : at(rim.width, number) ?? 0) / (size / 2), opacity: trace.marker?.opacity,
        }, group);
      }
      const text = at(trace.text, number);
      if (!mode.includes("text") || !text) return;
      const [vertical, side] = (at(trace.textposition, number) ?? "middle center").split(" ");
      const away = mode.includes("markers") ? size / 2 + 3 : 4;
      const dx = { left: -away, center: 0, right: away }[side];
      const dy = { top: -away, middle: 0, bottom: away }[vertical];
      write(group, text, spot[0] + dx, spot[1] + dy, {
        size: at(trace.textfont?.size, number) ?? fontSize, color: at(trace.textfont?.color, number) ?? ink,
        anchor: { left: "end", center: "middle", right: "start" }[side],
        vertical: { top: "bottom", middle: "middle", bottom: "top" }[vertical],
      });
    });
  }

  function drawBars(trace, group) {
    const isFlat = trace.orientation === "h";
    const along = axisOf(trace, isFlat ? "x" : "y");
    const across = axisOf(trace, isFlat ? "y" : "x");
    const [lengths, keys] = isFlat ? [trace.x ?? [], trace.y ?? []] : [trace.y ?? [], trace.x ?? []];
    const same = data.filter((each) => each.type === "bar" && each.visible !== false && axisOf(each, "x") === axisOf(trace, "x") && axisOf(each, "y") === axisOf(trace, "y"));
    const isGrouped = !["stack", "overlay", "relative"].includes(layout.barmode) && same.length > 1;
    const step = across.isCategory ? 1 : Math.min(...keys.slice(1).map((key, number) => Math.abs(key - keys[number])), ...(keys.length < 2 ? [1] : []));
    const slot = Math.abs(across.unit) * (isGrouped ? step / same.length : step);
    keys.forEach((key, number) => {
      const length = lengths[number];
      if (!isNumber(length)) return;
      const ledger = `${across.name} ${key}`;
      const base = Number(at(trace.base, number) ?? (layout.barmode === "stack" ? offsets.get(ledger) ?? 0 : 0));
      if (layout.barmode === "stack") offsets.set(ledger, base + length);
      const thick = Math.max(1, at(trace.width, number) ? at(trace.width, number) * Math.abs(across.unit) : slot * (1 - (layout.bargap ?? 0.2)));
      const zero = along.own.type === "log" ? along.span[0] : along.pixel(base);
      const end = along.pixel(base + length);
      const edges = [...along.span].sort((a, b) => a - b);
      const [low, high] = [zero, end].sort((a, b) => a - b).map((each) => Math.min(Math.max(each, edges[0]), edges[1]));
      if (low === high && Math.abs(end - zero) > 0) return; // outside the range of the axis
      const shift = isGrouped ? (same.indexOf(trace) - (same.length - 1) / 2) * slot : 0;
      const middle = across.pixel(key) + shift;
      const box = isFlat
        ? { x: low, width: high - low, y: middle - thick / 2, height: thick }
        : { y: low, height: high - low, x: middle - thick / 2, width: thick };
      const rim = trace.marker?.line;
      const marks = { fill: fillOf(trace.marker, number, ink), opacity: trace.marker?.opacity, stroke: rim?.width ? at(rim.color, number) : undefined, "stroke-width": rim?.width || undefined };
      element("rect", { ...box, ...marks }, group);
      const text = at(trace.text, number);
      if (text === undefined || text === null || text === "" || trace.textposition === "none") return;
      const size = at(trace.insidetextfont?.size ?? trace.textfont?.size, number) ?? 11;
      const room = isFlat ? box.width : box.height;
      const isInside = trace.textposition === "inside" || (trace.textposition !== "outside" && room > (isFlat ? widthOf(text, size, family) + 8 : 1.4 * size));
      if (isInside && (room < size || widthOf(text, size, family) > box.width + 1)) return; // it would be cut
      const color = isInside ? at(trace.insidetextfont?.color, number) ?? (isPale(at(trace.marker?.color, number)) ? "#000000" : "#ffffff") : ink;
      if (isFlat) write(group, text, isInside ? (low + high) / 2 : high + 4, middle, { size, color, anchor: isInside ? "middle" : "start" });
      else write(group, text, middle, isInside ? (low + high) / 2 : low - 2, { size, color, vertical: isInside ? "middle" : "bottom" });
    });
  }

  function drawHeatmap(trace, group) {
    const [xAxis, yAxis] = [axisOf(trace, "x"), axisOf(trace, "y")];
    const flat = trace.z.flat().filter(isNumber);
    const [low, high] = [trace.zmin ?? Math.min(...flat), trace.zmax ?? Math.max(...flat)];
    const [cellX, cellY] = [Math.abs(xAxis.unit), Math.abs(yAxis.unit)];
    const gap = [trace.xgap ?? 0, trace.ygap ?? 0];
    trace.z.forEach((row, line) => row.forEach((value, column) => {
      if (!isNumber(value)) return;
      const [x, y] = [xAxis.pixel(trace.x?.[column] ?? column), yAxis.pixel(trace.y?.[line] ?? line)];
      const color = colorAt(trace.colorscale, (value - low) / (high - low || 1));
      element("rect", { x: x - cellX / 2 + gap[0] / 2, y: y - cellY / 2 + gap[1] / 2, width: Math.max(cellX - gap[0], 0.5), height: Math.max(cellY - gap[1], 0.5), fill: color }, group);
      if (!trace.texttemplate) return;
      const text = trace.texttemplate.includes("%{text}") ? trace.text?.[line]?.[column] : shortNumber(value);
      const size = Math.min(trace.textfont?.size ?? 12, 12);
      if (text === undefined || text === null || widthOf(text, size, family) > cellX) return;
      write(group, text, x, y, { size, color: trace.textfont?.color ?? (isPale(color) ? "#000000" : "#ffffff") });
    }));
    // The colour bar lies in the gap right of its panel; a number is in each cell, so two ends suffice.
    if (trace.showscale === false || !trace.colorscale || trace.texttemplate) return;
  }

  function drawImage(trace, group) {
    const [xAxis, yAxis] = [axisOf(trace, "x"), axisOf(trace, "y")];
    const [columns, rows] = sizeOfPng(trace.source);
    const [left, top] = [xAxis.raw((trace.x0 ?? 0) - (trace.dx ?? 1) / 2), yAxis.raw((trace.y0 ?? 0) - (trace.dy ?? 1) / 2)];
    const size = { width: Math.abs(columns * (trace.dx ?? 1) * xAxis.unit), height: Math.abs(rows * (trace.dy ?? 1) * yAxis.unit) };
    element("image", { href: trace.source, x: left, y: top, ...size, preserveAspectRatio: "none", style: "image-rendering: pixelated" }, group);
  }

  const spotOn = (reference, value, isX) => {
    const [name, isDomain] = [(reference ?? "paper").split(" ")[0], (reference ?? "paper").includes("domain")];
    const axis = name === "paper" ? null : axes[name.replace(/^[xy]/, (letter) => `${letter}axis`)];
    const span = axis?.span ?? (isX ? [plot.x, plot.x + plot.width] : [plot.y + plot.height, plot.y]);
    return axis && !isDomain ? axis.pixel(value) : span[0] + value * (span[1] - span[0]);
  };
  for (const shape of layout.shapes ?? []) {
    const [x0, x1] = [shape.x0, shape.x1].map((value) => spotOn(shape.xref ?? "x", value, true));
    const [y0, y1] = [shape.y0, shape.y1].map((value) => spotOn(shape.yref ?? "y", value, false));
    const stroke = { stroke: shape.line?.color ?? ink, "stroke-width": shape.line?.width ?? 1, "stroke-dasharray": DASHES[shape.line?.dash], opacity: shape.opacity };
    if (shape.type === "line") element("line", { x1: x0, x2: x1, y1: y0, y2: y1, ...stroke }, svg);
    else element("rect", { x: Math.min(x0, x1), y: Math.min(y0, y1), width: Math.abs(x1 - x0), height: Math.abs(y1 - y0), fill: shape.fillcolor ?? "none", ...stroke }, svg);
  }
  const titlesOfPanels = (layout.annotations ?? []).filter((note) => note.xref === "paper" && note.xanchor !== "left");
  const centres = [...new Set(titlesOfPanels.map((note) => note.x))].sort((a, b) => a - b);
  const nearest = Math.min(1, ...centres.slice(1).map((x, number) => x - centres[number])) * plot.width;
  for (const note of layout.annotations ?? []) {
    let size = Math.min(note.font?.size ?? 12, 14);
    if (titlesOfPanels.includes(note)) // no longer than the way to the next title
      size = Math.max(7, Math.min(size, (size * (nearest - 12)) / widthOf(note.text, size, family)));
    const length = widthOf(note.text, size, family);
    const tall = size * 1.25 * lines(note.text).length;
    const [tipX, tipY] = [spotOn(note.xref ?? "x", note.x, true), spotOn(note.yref ?? "y", note.y, false)];
    let [x, y] = [tipX + (note.xshift ?? 0), tipY - (note.yshift ?? 0)];
    if (note.showarrow) {
      [x, y] = [tipX + (note.ax ?? 0), tipY + (note.ay ?? -30)];
      element("line", { x1: tipX, y1: tipY, x2: x, y2: y, stroke: note.arrowcolor ?? ink, "stroke-width": note.arrowwidth ?? 1 }, svg);
    }
    const anchor = note.showarrow ? "center" : note.xanchor ?? "auto";
    const left = anchor === "left" ? x : anchor === "right" ? x - length : x - length / 2;
    if (note.xanchor === "left" && left + length > width + 24) continue; // a phone: the numbers are in the table below
    const kept = Math.min(Math.max(left, 1), width - length - 1); // inside the figure
    const middle = { top: y + tall / 2, bottom: y - tall / 2 }[note.yanchor] ?? y;
    if (note.bgcolor || note.bordercolor) {
      const around = note.borderpad ?? 1;
      element("rect", { x: kept - around, y: middle - tall / 2 - around, width: length + 2 * around, height: tall + 2 * around, fill: note.bgcolor ?? "none", stroke: note.bordercolor, "stroke-width": note.borderwidth ?? 1, opacity: note.opacity }, svg);
    }
    write(svg, note.text, kept + length / 2, middle, { size, color: note.font?.color ?? ink });
  }
  if (layout.title?.text) {
    const size = Math.max(11, Math.min(15, (15 * (width - 12)) / widthOf(layout.title.text, 15, family)));
    write(svg, layout.title.text, 2, 6, { size, color: ink, anchor: "start", vertical: "top" }).classList.add("chart-title");
  }
  const legendTop = isBelow ? height - legendHeight + 4 : title;
  legend.forEach((trace, number) => {
    const [x, y] = [places[number][0] + 2, legendTop + 20 * places[number][1] + 9];
    const marker = trace.marker ?? {};
    if (trace.type === "bar") element("rect", { x, y: y - 6, width: 14, height: 12, fill: fillOf(marker, 0, ink), opacity: marker.opacity }, svg);
    else {
      if ((trace.mode ?? "lines").includes("lines")) element("line", { x1: x, x2: x + 22, y1: y, y2: y, stroke: trace.line?.color ?? ink, "stroke-width": trace.line?.width ?? 2, "stroke-dasharray": DASHES[trace.line?.dash] }, svg);
      if ((trace.mode ?? "").includes("markers")) {
        const symbol = String(at(marker.symbol, 0) ?? "circle");
        const color = at(marker.color, 0) ?? ink;
        const isOpen = symbol.endsWith("-open");
        element("path", { d: SYMBOLS[symbol.replace("-open", "")] ?? SYMBOLS.circle, transform: `translate(${x + 9} ${y}) scale(5)`, fill: isOpen ? "none" : color, stroke: at(marker.line?.color, 0) ?? color, "stroke-width": 0.3 }, svg);
      }
    }
    write(svg, trace.name, x + 26, y, { size: 12, color: ink, anchor: "start" });
  });
  host.replaceChildren(svg);
  host.data = data; // read by tests
  host.axes = axes; // read by pages that zoom
  return (number, changes) => {
    Object.assign(data[number], changes);
    drawTrace(number);
  };
}

function rgb(color) {
  const text = String(color ?? "");
  if (text.startsWith("#")) return [1, 3, 5].map((start) => parseInt(text.slice(start, start + 2), 16));
  return (text.match(/[\d.]+/g) ?? [0, 0, 0]).slice(0, 3).map(Number);
}

function isPale(color) {
  const [red, green, blue] = rgb(color);
  return 0.299 * red + 0.587 * green + 0.114 * blue > 140;
}

function colorAt(scale, share) {
  const steps = scale ?? [[0, "#ffffff"], [1, "#0072b2"]];
  const next = Math.max(1, steps.findIndex(([stop]) => stop >= Math.min(Math.max(share, 0), 1)));
  const [[from, first], [to, second]] = [steps[next - 1], steps[next] ?? steps[next - 1]];
  const part = Math.min(Math.max((share - from) / (to - from || 1), 0), 1);
  const [low, high] = [rgb(first), rgb(second)];
  return `rgb(${low.map((channel, number) => Math.round(channel + part * (high[number] - channel))).join(",")})`;
}

// Width and height of a PNG in a data address: two numbers of four bytes after its signature.
function sizeOfPng(source) {
  const head = atob(source.split(",")[1].slice(0, 32));
  return [16, 20].map((start) => [0, 1, 2, 3].reduce((sum, each) => 256 * sum + head.charCodeAt(start + each), 0));
}
