// Two runs beside each other: all their numbers, their curves, the slices of the images, and what changed where.

function metricTable(X) {
  const most = farthest(X.summary);
  const labels = [
    t("column.metric"),
    ...X.names.map((name) => short(name, 18)),
    t("column.difference"),
    t("column.interval"),
    t("column.plot"),
  ];
  const cells = (row) => [
    explain(row.name, metricText(row.name)),
    percent(row.first),
    percent(row.other),
    h("span", { "data-key": row.name, "data-value": row.delta }, deltaText(row)),
    interval(row),
    lowHigh(row, most),
  ];
  const table = h("div", { class: "card pad" }, plainTable(t("metrics.title"), labels, X.summary.map(cells)));
  section("metrics", t("metrics.title"), t("metrics.hint"), table);
}

// ---- precision over recall of both runs

function runCurves(X, st) {
  const holder = h("div", { class: "grid3" });
  section("curves", t("recall-plot"), t("compare.curves.hint"), holder);
  const rows = X.classes.map((row) => row.name);
  let drawn = null;
  const plot = (title, at) => {
    const svg = plotFrame(
      t("recall-plot.of", { name: title }),
      { title: t("key.recall") },
      { title: t("key.precision") },
    );
    X.curves.forEach((run, i) => {
      if (run[at]) svg.append(s("path", { class: i ? "run other" : "run first", d: linePath(...run[at]) }));
    });
    const key = h(
      "div",
      { class: "key" },
      X.names.map((name, i) =>
        h("span", {}, h("i", { class: i ? "run other" : "run first" }), nameOf(name, 30)),
      ),
    );
    return plotCard(title, key, svg);
  };
  // All classes, then the chosen one, or those that changed most.
  return () => {
    if (drawn === st.category) return;
    drawn = st.category;
    const chosen = st.category >= 0 ? rows.indexOf(X.categories[st.category]) : -1;
    const changed = rows
      .map((_, i) => i)
      .filter((i) => isNumber(X.classes[i].delta) && X.curves.some((run) => run[i + 1]))
      .sort((a, b) => Math.abs(X.classes[b].delta) - Math.abs(X.classes[a].delta) || a - b);
    const list = chosen >= 0 ? [chosen] : changed.slice(0, 2);
    holder.replaceChildren(plot(t("all-classes"), 0), ...list.map((i) => plot(short(rows[i], 30), i + 1)));
  };
}

// ---- slices of the images

function runSlices(X) {
  const key = Object.keys(X.slices[0].summary)[0];
  const rows = X.slices
    .filter((row) => row.images)
    .map((row) => ({
      ...row,
      value2: row.summary[key],
      delta: row.delta[key],
      low: row.low[key],
      high: row.high[key],
    }));
  const most = farthest(rows);
  const labels = [
    ...sliceLabels(["slice", "images", "objects"]),
    ...X.names.map((name) => short(name, 18)),
    t("column.difference"),
    t("column.interval"),
    t("column.plot"),
  ];
  const cells = (row) => [
    sliceName(row),
    count(row.images),
    count(row.gt),
    percent(isNumber(row.value2) && isNumber(row.delta) ? row.value2 - row.delta : null),
    percent(row.value2),
    deltaText(row),
    interval(row),
    lowHigh(row, most),
  ];
  const title = t("slices.of", { metric: key });
  section(
    "slices",
    t("analysis.slices"),
    title,
    h("div", { class: "card pad" }, plainTable(title, labels, rows.map(cells))),
  );
}

// ---- what changed: the objects that one run finds and the other does not, and the false positives

const FEW_CHANGES = 12;

// The changes of one image, as {found, lost, gone, come}: names of classes with how often.
function changesIn(X, columns, image) {
  const sides = X.runs.map((run, i) => columns[i][image] || []);
  const place = (run, i) => [run.class[i], ...run.box.map((column) => column[i])].join(",");
  const objects = X.runs.map(
    (run, n) =>
      new Map(sides[n].filter((i) => /^(GT|FN)$/.test(run.kind[i])).map((i) => [place(run, i), run.kind[i]])),
  );
  const tally = () => new Map();
  const add = (map, name, n = 1) => map.set(name, (map.get(name) || 0) + n);
  const made = { found: tally(), lost: tally(), come: tally(), gone: tally() };
  for (const [where, before] of objects[0]) {
    const after = objects[1].get(where);
    const name = X.categories[Number(where.split(",")[0])];
    if (before === "FN" && after === "GT") add(made.found, name);
    if (before === "GT" && after === "FN") add(made.lost, name);
  }
  const balance = tally();
  X.runs.forEach((run, n) => {
    for (const i of sides[n]) if (run.kind[i] === "FP") add(balance, X.categories[run.class[i]], n ? 1 : -1);
  });
  for (const [name, n] of balance) if (n) add(n > 0 ? made.come : made.gone, name, Math.abs(n));
  return made;
}

function changeList(X, st, open) {
  const columns = X.runs.map((run) => {
    const lists = [];
    run.image.forEach((image, i) => (lists[image] ||= []).push(i));
    return lists;
  });
  const rows = X.pictures
    .map((picture, image) => ({
      image,
      name: picture[0],
      made: changesIn(X, columns, image),
      errors: X.errors[image],
    }))
    .filter((row) => Object.values(row.made).some((map) => map.size));
  if (!rows.length) return;
  const words = (map) => [...map].map(([name, n]) => short(name, 24) + (n > 1 ? " × " + n : "")).join(", ");
  const cells = (row) => [
    h("button", { class: "lk", on: { click: () => open(row.name) } }, nameOf(row.name, 40)),
    h("span", { class: "up" }, words(row.made.found)),
    h("span", { class: "down" }, words(row.made.lost)),
    h("span", { class: "up" }, words(row.made.gone)),
    h("span", { class: "down" }, words(row.made.come)),
    row.errors.join(" → "),
  ];
  const labels = ["image", "found", "lost", "gone", "come", "errors"].map((key) => t("changes." + key));
  const holder = h("div");
  const more = h(
    "button",
    { class: "btn", on: { click: () => draw(true) } },
    t("changes.all", { n: rows.length }),
  );
  const draw = (all) => {
    holder.replaceChildren(
      plainTable(t("changes.title"), labels, rows.slice(0, all ? rows.length : FEW_CHANGES).map(cells)),
    );
    more.hidden = all || rows.length <= FEW_CHANGES;
  };
  draw(false);
  const part = X.pictures.length < X.imageCount ? t("changes.of-shown") : "";
  section(
    "changes",
    t("changes.title"),
    part,
    h("div", { class: "card pad changes" }, holder, h("div", { class: "more" }, more)),
  );
}
