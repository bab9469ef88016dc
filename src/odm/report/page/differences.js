// Differences of two numbers: with their interval, coloured where it leaves out 0.

const points = (v) => (isNumber(v) ? (v > 0 ? "+" : v < 0 ? "−" : "±") + Math.abs(100 * v).toFixed(1) : "–");

// Better or worse only where the interval leaves out 0, also for several runs. Of errors, less is better.
function judged(row) {
  if (!isNumber(row.delta) || row.chance) return null;
  const [up, down] = row.lower ? ["down", "up"] : ["up", "down"];
  if (isNumber(row.low) && row.low > 0) return up;
  return isNumber(row.high) && row.high < 0 ? down : null;
}

const deltaText = (row) => h("span", { class: judged(row) }, points(row.delta));
const interval = (row) =>
  isNumber(row.low) && isNumber(row.high) ? `${points(row.low)} … ${points(row.high)}` : "–";

// A line from low to high with a dot at the difference, around 0.
function lowHigh(row, most) {
  const x = (v) => 100 + (v / most) * 92;
  const svg = s("svg", {
    class: "lowhigh",
    viewBox: "0 0 200 22",
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  svg.append(s("line", { class: "ax", x1: 100, x2: 100, y1: 0, y2: 22 }));
  const color = { up: "var(--tp)", down: "var(--fp)" }[judged(row)] || "var(--mut)";
  const line = { stroke: color, y1: 11, y2: 11, "vector-effect": "non-scaling-stroke" };
  if (isNumber(row.low) && isNumber(row.high))
    svg.append(s("line", { ...line, "stroke-width": 2, x1: x(row.low), x2: x(row.high) }));
  if (isNumber(row.delta))
    svg.append(s("line", { ...line, "stroke-width": 9, x1: x(row.delta) - 1.5, x2: x(row.delta) + 1.5 }));
  return svg;
}

// ---- tables that stay as they are: `rows` are lists of cells, the first being the row's heading

function plainTable(title, labels, rows) {
  const line = ([first, ...cells]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, first),
      cells.map((cell, i) => h("td", { "data-label": labels[i + 1] }, cell)),
    );
  const header = labels.map((label) =>
    h("th", { scope: "col", class: label === t("column.plot") ? "l" : null }, label),
  );
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": t("table", { title }) },
    h(
      "table",
      { class: "classes plain" },
      h("caption", {}, title),
      h("thead", {}, h("tr", {}, header)),
      h("tbody", {}, rows.map(line)),
    ),
  );
}

const sliceName = (row) => `${clean(row.slice)}: ${clean(row.value)}`;
const sliceLabels = (keys) => keys.map((key) => (hasText("slices." + key) ? t("slices." + key) : key));

const farthest = (rows) =>
  Math.max(
    0.01,
    ...rows
      .flatMap((row) => [row.delta, row.low, row.high])
      .filter(isNumber)
      .map(Math.abs),
  );

// What a metric means, in words: of those that are numbered or named by their key.
function metricText(key) {
  if (hasText("metric." + key)) return t("metric." + key);
  const recall = /^AR(\d+)$/.exec(key);
  if (recall) return t("metric.ARk", { k: recall[1] });
  const [metric, area] = key.split("@");
  return area ? t("metric.area", { metric, area }) : "";
}
