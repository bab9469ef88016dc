// Small plots in SVG. Coordinates of a plot run from 0 to 1, the origin at the lower left.

const PLOT = { width: 360, height: 250, left: 46, right: 10, top: 10, bottom: 42 };
const plotX = (v) => PLOT.left + v * (PLOT.width - PLOT.left - PLOT.right);
const plotY = (v) => PLOT.top + (1 - v) * (PLOT.height - PLOT.top - PLOT.bottom);

// `x` and `y` are {title, ticks}; ticks are [place, text], left out the quarters from 0 to 1.
function plotFrame(label, x, y) {
  const svg = s("svg", { viewBox: `0 0 ${PLOT.width} ${PLOT.height}`, role: "img", "aria-label": label });
  for (const [v, text] of x.ticks || QUARTERS) {
    svg.append(
      s("line", { class: "ax", x1: plotX(v), x2: plotX(v), y1: plotY(0), y2: plotY(1) }),
      s("text", { x: plotX(v), y: plotY(0) + 15, "text-anchor": "middle" }, text),
    );
  }
  for (const [v, text] of y.ticks || QUARTERS) {
    svg.append(
      s("line", { class: "ax", x1: plotX(0), x2: plotX(1), y1: plotY(v), y2: plotY(v) }),
      s("text", { x: PLOT.left - 5, y: plotY(v) + 4, "text-anchor": "end" }, text),
    );
  }
  const middle = plotY(0.5);
  svg.append(
    s("text", { class: "axis", x: plotX(0.5), y: PLOT.height - 8, "text-anchor": "middle" }, x.title),
    s(
      "text",
      { class: "axis", x: 11, y: middle, "text-anchor": "middle", transform: `rotate(-90 11 ${middle})` },
      y.title,
    ),
  );
  return svg;
}

const quarter = (v) => (v === 0 || v === 1 ? String(v) : v.toFixed(2));
const QUARTERS = [0, 0.25, 0.5, 0.75, 1].map((v) => [v, quarter(v)]);

// Round numbers from 0 up to at most `top`, as ticks of an axis that ends there.
function countTicks(top) {
  const power = 10 ** Math.floor(Math.log10(top / 3));
  const step = Math.max(
    1,
    [1, 2, 5, 10].map((n) => n * power).find((unit) => top / unit <= 5),
  );
  return Array.from({ length: Math.floor(top / step) + 1 }, (_, i) => [
    (i * step) / top,
    compact(i * step).replace(/\.0+k/, "k"),
  ]);
}

// A line through points; where a value is missing the line is interrupted.
function linePath(xs, ys) {
  let pen = "M";
  let path = "";
  for (let i = 0; i < xs.length; i++) {
    if (!isNumber(xs[i]) || !isNumber(ys[i])) {
      pen = "M";
      continue;
    }
    path += `${pen}${plotX(xs[i]).toFixed(1)} ${plotY(ys[i]).toFixed(1)}`;
    pen = "L";
  }
  return path;
}

const legend = (...items) =>
  h(
    "div",
    { class: "key" },
    items.map(([color, text]) =>
      h("span", {}, color ? h("i", { css: { "border-color": color } }) : null, text),
    ),
  );

const plotCard = (title, key, plot, note) =>
  h(
    "div",
    { class: "card plot" },
    h("h3", {}, title),
    key,
    plot,
    note ? h("p", { class: "cap" }, note) : null,
  );

// Stacked columns: `bars` are {label, parts: [[number, color], ...], text}.
function columnPlot(label, bars) {
  const top = Math.max(1, ...bars.map((bar) => bar.parts.reduce((sum, [n]) => sum + n, 0)));
  const width = 452 / Math.max(1, bars.length);
  const every = Math.ceil(bars.length / 12);
  const svg = s("svg", { class: "sizes", viewBox: "0 0 460 236", role: "img", "aria-label": label });
  bars.forEach((bar, i) => {
    const x = 4 + i * width;
    const gap = Math.min(3, width / 8);
    let y = 206;
    for (const [n, color] of bar.parts) {
      const height = (n / top) * 172;
      if (n)
        svg.append(s("rect", { x: x + gap, width: width - 2 * gap, y: y - height, height, fill: color }));
      y -= height + (n ? 1 : 0);
    }
    const middle = { x: x + width / 2, "text-anchor": "middle" };
    if (bar.text) svg.append(s("text", { ...middle, y: y - 5 }, bar.text));
    if (i % every === 0) svg.append(s("text", { ...middle, y: 222 }, bar.label));
  });
  return svg;
}
