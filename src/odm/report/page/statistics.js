// What is in a dataset: counts, sizes, and samples of every class.

const COLUMN = "var(--tp)";

function drawPage(X, sources) {
  const S = X.statistics;
  const shares = Object.fromEntries(S.classes.map((row) => [row.name, row]));
  X.classes = X.classes.map((row) => ({ ...row, ...shares[row.name] }));
  head(X, t("page.statistics"), null);
  datasetFoot(X);
  const st = datasetState(X);
  const parts = [];
  let gallery = null;
  const redraw = makeRedraw(parts, () => gallery);
  const sections = [
    ["top", t("section.top")],
    ["classes", t("section.classes")],
    ["sizes", t("section.sizes")],
    ["images", t("section.samples")],
  ];
  parts.push(datasetBar(X, st, redraw, sections));
  statisticsTiles(S);
  const share = (v) => [percent(v), shareBar(v)];
  parts.push(
    datasetClasses(X, st, redraw, [
      ["boxes", count],
      ["share", share],
      ["images", count],
      ["small", count],
      ["medium", count],
      ["large", count],
    ]),
  );
  statisticsPlots(S);
  gallery = datasetGallery(X, st, sources, redraw, t("samples.title"));
  parts.forEach((part) => part());
  gallery.draw();
}

function statisticsTiles(S) {
  const tile = (key, label, value, under) =>
    h(
      "div",
      { class: "card tile" },
      h("div", { class: "l" }, label),
      h("div", { class: "v" }, h("b", { "data-key": key, "data-value": value }, count(value))),
      h("div", { class: "s" }, under),
    );
  const empty = S.classes.filter((row) => !row.boxes).length;
  const decimals = (v) => (isNumber(v) ? String(Number(v.toPrecision(3))) : "–");
  byId("main").append(
    h(
      "div",
      { class: "tiles even" },
      tile("images", t("tile.images"), S.images, t("without-boxes", { n: S.images_without_boxes })),
      tile("classes", t("tile.classes"), S.classes.length, t("without-boxes", { n: empty })),
      tile("boxes", t("tile.boxes"), S.boxes, t(S.kind === "gt" ? "side.gt" : "side.det")),
      tile("images_without_size", t("tile.without-size"), S.images_without_size, t("images-without-size")),
      h(
        "div",
        { class: "card tile" },
        h("div", { class: "l" }, t("tile.per-image")),
        h("div", { class: "v" }, decimals(S.boxes_per_image.mean)),
        h(
          "div",
          { class: "s" },
          t("median-most", { median: decimals(S.boxes_per_image.median), most: S.boxes_per_image.max }),
        ),
      ),
      h(
        "div",
        { class: "card tile" },
        h("div", { class: "l" }, t("tile.area")),
        h("div", { class: "v" }, decimals(S.area.median)),
        h("div", { class: "s" }, t("median-area")),
      ),
    ),
  );
}

// 1/8 for 0.125: ratios are read as fractions, and they are shorter.
const edgeText = (v) => (v > 0 && v < 1 && Number.isInteger(1 / v) && v !== 0.1 ? `1/${1 / v}` : String(v));

function bounds(group) {
  if (group.lower === null) return "< " + edgeText(group.upper);
  return group.upper === null
    ? edgeText(group.lower) + "+"
    : `${edgeText(group.lower)}–${edgeText(group.upper)}`;
}

function perImage(S) {
  const groups = [
    [0, 0],
    [1, 1],
    [2, 2],
    [3, 5],
    [6, 10],
    [11, 20],
    [21, 50],
    [51, 100],
    [101, 500],
    [501, Infinity],
  ];
  const bars = groups.map(([low, high]) => {
    const n = S.images_by_boxes
      .filter((row) => row.boxes >= low && row.boxes <= high)
      .reduce((a, row) => a + row.images, 0);
    return { label: low === high ? String(low) : high === Infinity ? low + "+" : `${low}–${high}`, n };
  });
  while (bars.length > 1 && !bars[bars.length - 1].n) bars.pop();
  return bars;
}

function statisticsPlots(S) {
  const plot = (title, list, note) => {
    const total = list.reduce((a, bar) => a + bar.n, 0);
    if (!total) return null;
    const bars = list.map((bar) => ({
      label: bar.label,
      parts: [[bar.n, COLUMN]],
      text: bar.n ? compact(bar.n) : "",
    }));
    const label = `${title}: ` + list.map((bar) => `${bar.label}, ${bar.n}`).join("; ");
    return plotCard(title, null, columnPlot(label, bars), note);
  };
  const areas = Object.entries(S.areas).map(([area, n]) => ({ label: t("plot.area." + area), n }));
  const sizes = S.image_sizes
    .slice(0, 6)
    .map((row) => ({ label: `${row.width}×${row.height}`, n: row.images }));
  const rest = S.image_sizes.slice(6).reduce((a, row) => a + row.images, 0);
  if (rest) sizes.push({ label: t("plot.others"), n: rest });
  const grouped = (list) => list.map((group) => ({ label: bounds(group), n: group.n }));
  section(
    "sizes",
    t("sizes"),
    "",
    h(
      "div",
      { class: "grid3" },
      plot(t("plot.per-image"), perImage(S)),
      plot(t("plot.areas"), areas, t("plot.areas.note")),
      plot(t("plot.aspects"), grouped(S.aspects)),
      plot(t("plot.image-sizes"), sizes, t("plot.image-sizes.note")),
      S.scores.length ? plot(t("plot.scores"), grouped(S.scores)) : null,
    ),
  );
}
