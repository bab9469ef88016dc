// The analyses that were asked for: TIDE, calibration, LRP, thresholds, slices, and the images with the largest error.

const SHOWN = ["tide", "calibration", "thresholds", "lrp", "slices", "images"];
const hasAnalyses = (R) => SHOWN.some((name) => R.analysis[name]);

function analyses(context) {
  const { R } = context;
  if (!hasAnalyses(R)) return null;
  const made = [];
  const holder = h("div", { class: "analyses" });
  section("analyses", t("analyses.title"), t("analyses.hint"), holder);
  for (const [name, make] of Object.entries({
    tide: tideBars,
    calibration: calibrationPlot,
    thresholds: thresholdTable,
    lrp: lrpTable,
    slices: sliceTables,
    images: errorImages,
  })) {
    const data = R.analysis[name];
    if (!data) continue;
    const [part, update] =
      data.reason && !data.bins
        ? [analysisCard(name, h("p", { class: "cap" }, clean(data.reason)))]
        : make(context, data);
    holder.append(part);
    if (update) made.push(update);
  }
  return () => made.forEach((update) => update());
}

const analysisCard = (name, ...parts) =>
  h(
    "div",
    { class: "card pad analysis", id: "analysis-" + name },
    h("h3", {}, t("analysis." + name)),
    h("p", { class: "cap" }, t("analysis." + name + ".about")),
    parts,
  );

// ---- TIDE: AP gained by putting each kind of error right

function tideBars({ R, st }, tide) {
  const rows = new Map((tide.classes || []).map((row) => [row.class, row]));
  const kinds = Object.keys(tide).filter((kind) => kind !== "classes");
  const holder = h("div");
  const whose = h("p", { class: "cap" });
  const update = () => {
    const row = st.category >= 0 ? rows.get(R.rows[st.category].class) : null;
    const values = kinds.map((kind) => (st.category < 0 ? tide[kind].dap : row ? row[kind] : null));
    const most = Math.max(1e-9, ...values.filter(isNumber));
    whose.textContent = st.category < 0 ? t("all-classes") : short(R.rows[st.category].class, 40);
    const line = (kind, i) => {
      const n = tide[kind].count;
      return h(
        "div",
        { class: "hbar", "data-key": kind, "data-value": values[i] },
        explain(t("tide." + kind), t("tide." + kind + ".about")),
        h(
          "span",
          { class: "t" },
          h("i", {
            class: i < 6 ? "c-fp" : "c-mut",
            css: { width: (100 * Math.max(0, values[i] || 0)) / most + "%" },
          }),
        ),
        h("b", {}, isNumber(values[i]) ? points(values[i]) : "–"),
        h("small", {}, isNumber(n) && st.category < 0 ? t("tide.count", { n }) : ""),
      );
    };
    holder.replaceChildren(...kinds.map(line));
  };
  return [analysisCard("tide", whose, holder), update];
}

// ---- calibration: precision over score, and how far it is from the diagonal

function calibrationPlot({ R, st }, found) {
  if (found.reason) return [analysisCard("calibration", h("p", { class: "cap" }, clean(found.reason)))];
  const svg = plotFrame(
    t("calibration.label"),
    { title: t("axis.mean-score") },
    { title: t("key.precision") },
  );
  svg.append(s("line", { class: "diagonal", x1: plotX(0), y1: plotY(0), x2: plotX(1), y2: plotY(1) }));
  const bins = found.bins.filter((bin) => bin.n);
  const most = Math.max(1, ...bins.map((bin) => bin.n));
  for (const bin of bins) {
    const [low, high] = [Math.min(bin.score, bin.precision), Math.max(bin.score, bin.precision)];
    const width = 0.075 * (plotX(1) - plotX(0));
    const about = {
      low: String(bin.low),
      high: String(bin.high),
      n: bin.n,
      score: bin.score.toFixed(3),
      precision: percent(bin.precision),
    };
    svg.append(
      s("rect", {
        class: bin.precision < bin.score ? "gap over" : "gap under",
        x: plotX(bin.score) - width / 2,
        width,
        y: plotY(high),
        height: Math.max(1, plotY(low) - plotY(high)),
        "data-tip": t("calibration.bin", about),
      }),
      s("circle", {
        class: "bin",
        cx: plotX(bin.score),
        cy: plotY(bin.precision),
        r: 2.5 + 3.5 * Math.sqrt(bin.n / most),
      }),
    );
  }
  svg.append(
    s("path", {
      class: "strong",
      d: linePath(
        bins.map((b) => b.score),
        bins.map((b) => b.precision),
      ),
    }),
  );
  const words = h("p", { class: "cap", role: "status" });
  const classes = new Map(found.classes.map((row) => [row.class, row.dece]));
  const update = () => {
    const own = st.category < 0 ? null : classes.get(R.rows[st.category].class);
    const all = t("calibration.numbers", { dece: decimal(found.dece), mce: decimal(found.mce) });
    const name = st.category < 0 ? "" : short(R.rows[st.category].class, 30);
    words.textContent =
      all + (st.category < 0 ? "" : " " + t("calibration.class", { name, dece: decimal(own) }));
  };
  const key = h(
    "div",
    { class: "key" },
    h("span", {}, h("i", { class: "sw over" }), t("calibration.over")),
    h("span", {}, h("i", { class: "sw under" }), t("calibration.under")),
  );
  return [analysisCard("calibration", key, svg, words), update];
}

const decimal = (v, digits = 3) => (isNumber(v) ? v.toFixed(digits) : "–");

// ---- tables by class: LRP and thresholds

function byClass(context, name, columns, rows, sortBy) {
  const { R, st } = context;
  const own = { all: false, text: "", order: { key: sortBy, direction: -1 } };
  const number = ([key, show]) => ({
    key,
    label: t("analysis." + name + "." + key),
    value: (row) => row[key],
    cell: (row) => show(row[key]),
    data: (row) => ({ "data-key": key, "data-value": row[key] }),
  });
  const table = sortedTable({
    caption: t("analysis." + name),
    columns: [
      { key: "name", label: t("column.class"), text: true, value: (row) => row.name },
      ...columns.map(number),
    ],
    order: own.order,
    onSort: () => list.draw(),
  });
  const chosen = (row) => st.category >= 0 && row.name === R.rows[st.category].class;
  const line = (row) =>
    h(
      "tr",
      { role: "row", class: chosen(row) ? "on" : null, "data-class": row.name },
      h("th", { scope: "row", role: "rowheader" }, nameOf(row.name, 40)),
      table.cells(row),
    );
  const list = classRows({ table, st: own, few: FEW_ANALYSED, rows: () => rows, chosen, line });
  return [analysisCard(name, list.parts), list.update];
}

const FEW_ANALYSED = 8;

function lrpTable(context, lrp) {
  const rows = lrp.classes.map((row, i) => ({ ...row, i, name: row.class }));
  rows.push({ ...lrp, i: rows.length, name: t("analysis.lrp.mean"), score: null });
  const columns = ["olrp", "loc", "fp", "fn", "score"].map((key) => [key, decimal]);
  return byClass(context, "lrp", columns, rows, "olrp");
}

function thresholdTable(context, found) {
  const rows = Object.entries(found.classes).map(([name, row], i) => ({ ...row, i, name }));
  const columns = [
    ["score", decimal],
    ["precision", percent],
    ["recall", percent],
  ];
  const [card, update] = byClass(context, "thresholds", columns, rows, "score");
  card.querySelector(".cap").append(" ", t("analysis.thresholds.rule", { rule: clean(found.rule) }));
  return [card, update];
}

// ---- slices: parts of the images, and of the boxes

function sliceTables(context, rows) {
  const main = rows.find((row) => row.summary);
  const key = main ? Object.keys(main.summary)[0] : "";
  const ofImages = rows.filter((row) => row.delta && row.images);
  const ofBoxes = rows.filter((row) => row.summary && !row.delta && row.gt);
  const ofMarked = rows.filter((row) => "recall" in row && row.gt);
  const card = analysisCard("slices");
  if (ofImages.length) card.append(imageSlices(context, ofImages, key));
  if (ofBoxes.length)
    card.append(
      plainTable(
        t("slices.boxes"),
        sliceLabels(["slice", "objects", key]),
        ofBoxes.map((row) => [
          sliceName(row),
          count(row.gt),
          [percent(row.summary[key]), shareBar(row.summary[key])],
        ]),
      ),
    );
  if (ofMarked.length)
    card.append(
      plainTable(
        t("slices.marked"),
        sliceLabels(["slice", "objects", "missed", "recall"]),
        ofMarked.map((row) => [
          clean(row.value),
          count(row.gt),
          count(row.missed),
          [percent(row.recall), shareBar(row.recall)],
        ]),
      ),
    );
  return [card];
}

// What a slice differs by from the other images; with an interval it is coloured where 0 lies outside.
function imageSlices({ X, st, redraw }, rows, key) {
  const drawn = rows.map((row) => ({
    ...row,
    delta: row.delta[key],
    low: row.low[key],
    high: row.high[key],
  }));
  const most = Math.max(
    0.01,
    ...drawn
      .flatMap((row) => [row.delta, row.low, row.high])
      .filter(isNumber)
      .map(Math.abs),
  );
  const name = (row) => {
    const tag = row.slice + "=" + row.value;
    if (!X.tags[tag]) return sliceName(row);
    const choose = () => {
      st.tag = tag;
      redraw();
      toImages();
    };
    return h("button", { class: "lk", on: { click: choose } }, sliceName(row));
  };
  const cells = (row) => [
    name(row),
    count(row.images),
    count(row.gt),
    percent(row.summary[key]),
    deltaText(row),
    interval(row),
    lowHigh(row, most),
  ];
  return plainTable(
    t("slices.parts"),
    sliceLabels(["slice", "images", "objects", key, "rest", "interval", "plot"]),
    drawn.map(cells),
  );
}

// ---- the images with the largest error

function errorImages({ X, openImage }, rows) {
  const shown = new Set(X.pictures.map(([name]) => name));
  const name = (row) => {
    if (!shown.has(row.image)) return nameOf(row.image, 40);
    const choose = () => openImage(row.image);
    return h("button", { class: "lk", on: { click: choose } }, nameOf(row.image, 40));
  };
  const cells = (row) => [
    name(row),
    count(row.gt),
    count(row.tp),
    count(row.fp),
    count(row.fn),
    [percent(row.error_share), shareBar(row.error_share)],
  ];
  return [
    analysisCard(
      "images",
      plainTable(
        t("images.worst"),
        sliceLabels(["image", "objects", "tp", "fp", "fn", "share"]),
        rows.map(cells),
      ),
    ),
  ];
}
