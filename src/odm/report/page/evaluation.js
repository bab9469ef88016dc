// The report of an evaluation. Everything but AP follows one score slider.

// ---- the page

function drawPage(X, sources) {
  const st = {
    result: 0,
    level: null,
    category: -1,
    kind: "",
    cell: null,
    all: false,
    order: { key: "gt", direction: -1 },
  };
  readAddress(X, st);
  const chips = h("div", { id: "definition" });
  head(X, t("page.evaluation"), chips);
  foot(X, footText(X));
  const shown = { GT: false };

  function show() {
    byId("main").replaceChildren();
    byId("barin").replaceChildren();
    const R = X.results[st.result];
    if (st.level === null || st.level >= R.levels.length) st.level = R.best;
    drawResult(X, R, sources, st, shown, chips, show);
  }
  show();
}

function footText(X) {
  const shown = X.pictures.length;
  const counts = t("counts-of-all", { n: X.imageCount });
  return t(shown < X.imageCount ? "some-shown" : "all-shown", { counts, shown, rows: t("rows-of-files") });
}

function readAddress(X, st) {
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=");
    if (key === "r" && X.results[value]) st.result = Number(value);
  }
  const R = X.results[st.result];
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=");
    if (key === "s" && value !== "" && isFinite(value)) {
      const below = R.levels.filter((level) => level <= Number(value) + 1e-12).length - 1;
      st.level = Math.max(0, below);
    }
    if (key === "c" && R.rows[value]) st.category = Number(value);
    if (key === "k" && /^(FP[0-9]?|FN|TP)$/.test(value)) st.kind = value;
  }
}

function keepAddress(X, R, st) {
  const parts = ["s=" + levelText(R, st.level)];
  if (st.category >= 0) parts.push("c=" + st.category);
  if (st.kind) parts.push("k=" + st.kind);
  if (st.result) parts.push("r=" + st.result);
  history.replaceState(null, "", "#" + parts.join("&"));
}

function drawResult(X, R, sources, st, shown, chips, show) {
  const tools = { counts: makeCounts(X, R), sizes: makeSizes(X, R), confusion: makeConfusion(R) };
  if (st.category >= R.rows.length) st.category = -1;
  chips.replaceChildren(...definition(X, R, st, show));
  let queued = false;
  const redraw = () => {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => {
      queued = false;
      now();
    });
  };
  const context = { X, R, st, redraw, ...tools, shown, sources };
  const parts = [bar(context), tiles(context), classTable(context), curves(context), errors(context)];
  const gallery = images(context);
  let later = 0;
  let first = true;
  function now() {
    const begin = performance.now();
    for (const part of parts) part();
    keepAddress(X, R, st);
    clearTimeout(later);
    if (first) gallery.draw();
    else later = setTimeout(gallery.draw, REDRAW_GALLERY);
    first = false;
    document.documentElement.dataset.redrawTime = String(Math.round(performance.now() - begin));
  }
  now();
}

function definition(X, R, st, show) {
  const choose = (i) => () => {
    Object.assign(st, { result: i, level: null, cell: null, kind: "", category: -1 });
    show();
    byId("definition").querySelector("[aria-pressed=true]").focus();
  };
  const tabs = X.results.map((other, i) =>
    h(
      "button",
      { class: "chip", "aria-pressed": String(i === st.result), on: { click: choose(i) } },
      other.label,
    ),
  );
  const dropped = Object.entries(R.dropped).map(([what, n]) => h("li", {}, t("dropped", { n, what })));
  return [
    X.results.length > 1 ? h("div", { class: "tabs", role: "group", "aria-label": t("protocol") }, tabs) : "",
    h(
      "ul",
      { class: "def", "aria-label": t("definitions") },
      h("li", {}, R.protocol),
      R.definition.split("; ").map((part) => h("li", {}, part)),
      dropped,
    ),
  ];
}

// ---- the bar with the slider and the live numbers

function bar({ X, R, st, redraw, counts }) {
  const range = h("input", {
    type: "range",
    id: "score",
    min: 0,
    max: R.levels.length - 1,
    step: 1,
    on: {
      input: (event) => {
        st.level = Number(event.target.value);
        redraw();
      },
    },
  });
  const output = h("output", { for: "score" });
  const live = h("div", { class: "live", id: "numbers" });
  const clear = h("button", {
    class: "btn clear",
    id: "clear",
    on: {
      click: () => {
        Object.assign(st, { category: -1, kind: "", cell: null });
        redraw();
        range.focus();
      },
    },
  });
  const nav = links(["top", "classes", "curves", "errors", "images"].map((id) => [id, t("section." + id)]));
  nav.append(clear);
  byId("barin").append(
    h("div", { class: "slide" }, h("label", { for: "score" }, t("score-at-least")), range, output),
    live,
    nav,
  );

  return () => {
    const x = counts.counts(st.level, st.category);
    const text = levelText(R, st.level);
    const category = st.category < 0 ? null : clean(R.rows[st.category].class);
    output.textContent = text;
    range.value = st.level;
    const spoken = {
      score: text,
      precision: percent(x.precision),
      recall: percent(x.recall),
      fp: String(x.fp),
      fn: String(x.fn),
    };
    range.setAttribute("aria-valuetext", t("spoken-score", spoken));
    const number = (key, label, value, shownAs) =>
      h(
        "span",
        { title: t("hint." + key) },
        label,
        " ",
        h("b", { "data-key": key, "data-score": text, "data-value": value, "data-class": category }, shownAs),
      );
    const letter = (key) => h("span", { class: "k" }, t("letter." + key));
    live.replaceChildren(
      number("precision", letter("precision"), x.precision, percent(x.precision)),
      number("recall", letter("recall"), x.recall, percent(x.recall)),
      number("f1", letter("f1"), x.f1, percent(x.f1)),
      number("tp", mark("TP"), x.tp, count(x.tp)),
      number("fp", mark("FP"), x.fp, count(x.fp)),
      number("fn", mark("FN"), x.fn, count(x.fn)),
    );
    const filters = [
      category === null ? "" : short(category, 24),
      kindName(X, st.kind),
      cellName(R, st.cell),
    ].filter(Boolean);
    clear.hidden = !filters.length;
    clear.textContent = filters.join(" · ") + "  ✕";
    clear.setAttribute("aria-label", t("clear-filters", { filters: filters.join(", ") }));
    say(t("spoken-counts", spoken));
  };
}

function kindName(X, kind) {
  if (!kind) return "";
  if (/^FP\d/.test(kind)) return t("kind.FP-of", { kind: t("kind." + X.kinds[Number(kind[2]) + 1]) });
  return t("kind." + kind);
}

function cellName(R, cell) {
  if (!cell) return "";
  const [row, column] = cell.split(",").map(Number);
  const name = (i, none) => (i < R.rows.length ? short(R.rows[i].class, 20) : none);
  return t("confused", { truth: name(row, t("nothing-there")), detection: name(column, t("missed")) });
}

// ---- tiles

function tiles({ X, R, st, counts }) {
  const keys = Object.keys(R.summary);
  const about = {
    AP: t("about.AP"),
    "mAP50-95": t("about.AP"),
    mAP: t("about.mAP"),
    CorLoc: t("about.mAP"),
  }[keys[0]];
  const lower = keys[0].startsWith("top") ? t("about.lower") : about;
  const value = (key) => h("b", { "data-key": key, "data-value": R.summary[key] }, withUnit(R.summary[key]));
  const rest = keys.slice(1).filter((key) => key !== "score");
  const hero = h(
    "div",
    { class: "card tile hero" },
    h(
      "div",
      { class: "l" },
      keys[0] + (lower && !(keys[0] === "AP" && keys.length === 1) ? " · " + lower : ""),
    ),
    h("div", { class: "v" }, value(keys[0])),
    rest.length
      ? h(
          "div",
          { class: "mini" },
          rest
            .slice(0, 12)
            .map((key) =>
              h(
                "div",
                {},
                h("b", { "data-key": key, "data-value": R.summary[key] }, percent(R.summary[key])),
                key,
              ),
            ),
        )
      : null,
    "score" in R.summary
      ? h("div", { class: "s" }, t("yolo-point", { score: R.summary.score.toFixed(3) }))
      : null,
  );
  const main = {};
  const under = {};
  const tile = (key, kind, wide) => {
    main[key] = h("div", { class: "v" });
    under[key] = h("div", { class: "s" });
    const text = h("div", { class: "l" }, kind ? mark(kind) : null, t("tile." + key));
    return h("div", { class: "card tile" + (wide ? " wide" : "") }, text, main[key], under[key]);
  };
  byId("main").append(
    h(
      "div",
      { class: "tiles" },
      hero,
      tile("precision"),
      tile("recall"),
      tile("f1"),
      tile("gt", "GT"),
      tile("images"),
      tile("det"),
      tile("tp", "TP", true),
      tile("fp", "FP", true),
      tile("fn", "FN", true),
    ),
  );
  return () => {
    const x = counts.counts(st.level, st.category);
    const score = levelText(R, st.level);
    for (const key of ["precision", "recall", "f1"]) main[key].textContent = withUnit(x[key]);
    for (const key of ["tp", "fp", "fn", "gt"]) main[key].textContent = count(x[key]);
    main.images.textContent = count(X.imageCount);
    main.det.textContent = count(x.tp + x.fp);
    under.precision.textContent = t("of-detections-right");
    under.recall.textContent = t("of-objects-found");
    under.f1.textContent =
      st.level === R.best ? t("best-f1") : t("best-near", { score: levelText(R, R.best) });
    under.gt.textContent =
      st.category < 0
        ? t("classes", { n: R.rows.filter((row) => row.gt).length })
        : short(R.rows[st.category].class, 20);
    const whose = st.category < 0 ? "with-errors" : "with-errors-any";
    under.images.textContent = t(whose, { n: R.wrongImages[st.level] });
    under.det.textContent = t("score", { score });
    under.tp.textContent = x.gt ? t("share-of-objects", { share: withUnit(x.tp / x.gt, 0) }) : "";
    under.fp.textContent = t("per-image", { n: (x.fp / Math.max(1, X.imageCount)).toFixed(2) });
    under.fn.textContent = x.gt ? t("share-of-objects", { share: withUnit(x.fn / x.gt, 0) }) : "";
  };
}

// ---- the table of classes

function classTable({ X, R, st, redraw, counts }) {
  const total = Object.values(R.summary)[0];
  const hasAp = R.rows.some((row) => isNumber(row.ap));
  const apOf = (row) => (row.i < 0 ? (hasAp ? total : null) : R.rows[row.i].ap);
  const number = (key) => ({
    key,
    value: (row) => row[key],
    cell: (row) => (["precision", "recall", "f1"].includes(key) ? percent(row[key]) : count(row[key])),
    data: (row) => ({
      "data-key": key,
      "data-value": row[key],
      "data-score": key === "gt" ? null : levelText(R, st.level),
    }),
  });
  const columns = [
    { key: "name", label: t("column.class"), text: true, value: (row) => row.name },
    { ...number("gt"), label: t("column.objects") },
    {
      key: "ap",
      label: t("column.ap"),
      value: apOf,
      cell: (row) => [percent(apOf(row)), shareBar(apOf(row))],
      data: (row) => ({ "data-key": row.i < 0 ? null : "ap", "data-value": apOf(row) }),
    },
    { ...number("precision"), label: t("precision") },
    { ...number("recall"), label: t("recall") },
    { ...number("f1"), label: t("f1") },
    { ...number("tp"), label: t("column.tp") },
    { ...number("fp"), label: t("column.fp") },
    { ...number("fn"), label: t("column.fn") },
    { key: "mix", label: t("column.mix"), fixed: true, class: "l", cell: (row) => mix(row) },
  ].filter((column) => hasAp || column.key !== "ap");
  const table = sortedTable({
    caption: t("classes.caption"),
    columns,
    order: st.order,
    onSort: () => list.draw(),
  });
  const chosen = (row) => row.i === st.category;
  const list = classRows({ table, st, few: FEW_CLASSES, rows: counted, chosen, line });
  section("classes", t("classes.title"), t("classes.hint"), list.parts);

  function nameCell(row) {
    const choose = () => {
      st.category = st.category === row.i ? -1 : row.i;
      st.cell = null;
      redraw();
    };
    const pressed = String(row.i === st.category);
    return h(
      "th",
      { scope: "row", role: "rowheader" },
      h("button", { class: "lk", "aria-pressed": pressed, on: { click: choose } }, nameOf(row.name, 40)),
    );
  }

  function counted() {
    const rows = R.rows.map((row, i) => ({ i, name: row.class, ...counts.counts(st.level, i) }));
    const many = rows.length > FEW_CLASSES + 5;
    const most = Math.max(1, ...rows.map((row) => row.tp + row.fp + row.fn));
    for (const row of rows) row.scale = many ? row.tp + row.fp + row.fn : most;
    return rows;
  }

  function line(row) {
    const on = row.i === st.category ? "on" : null;
    return h("tr", { role: "row", class: on, "data-class": row.name }, nameCell(row), table.cells(row));
  }

  return () => {
    list.update();
    const sum = { i: -1, ...counts.counts(st.level) };
    table.footer.replaceChildren(
      h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, t("all")), table.cells(sum)),
    );
  };
}

function mix(row) {
  if (!row.scale) return null;
  const width = 150 / row.scale;
  const label = t("mix", row);
  const part = (key) =>
    row[key] ? h("i", { class: "c-" + key, css: { width: Math.max(1, row[key] * width) + "px" } }) : null;
  return h("span", { class: "sbar", role: "img", "aria-label": label }, ["tp", "fp", "fn"].map(part));
}

// ---- curves

function curves({ X, R, st, redraw, counts }) {
  const holder = h("div", { class: "grid3" });
  section("curves", t("curves.title"), t("curves.hint"), holder);
  const low = R.levels[0];
  const span = R.levels[R.levels.length - 1] - low || 1;
  const place = (level) => (R.levels[level] - low) / span;
  const ticks = QUARTERS.map(([v]) => [v, String(Number((low + v * span).toPrecision(3)))]);
  let drawnFor = null;
  let moving = null;

  function drag(svg) {
    const set = (event) => {
      const room = svg.getBoundingClientRect();
      const x =
        (((event.clientX - room.left) / room.width) * PLOT.width - PLOT.left) /
        (PLOT.width - PLOT.left - PLOT.right);
      st.level = Math.max(0, Math.min(R.levels.length - 1, Math.round(x * (R.levels.length - 1))));
      redraw();
    };
    svg.classList.add("drag-x");
    svg.addEventListener("pointerdown", (event) => {
      svg.setPointerCapture(event.pointerId);
      set(event);
    });
    svg.addEventListener("pointermove", (event) => {
      if (event.buttons && svg.hasPointerCapture(event.pointerId)) set(event);
    });
    return svg;
  }

  function recallPlot(all) {
    const name = st.category >= 0 ? short(R.rows[st.category].class, 24) : t("all-classes");
    const svg = plotFrame(t("recall-plot.of", { name }), QUARTERS);
    const lines = R.curves.filter((curve) => curve).length;
    svg.style.setProperty("--faint", Math.max(0.03, Math.min(0.28, 12 / Math.max(1, lines))));
    R.curves.forEach((curve, i) => {
      if (curve && i !== st.category)
        svg.append(
          s("path", { class: "faint", d: linePath(...curve) }, s("title", {}, short(R.rows[i].class))),
        );
    });
    const own =
      st.category >= 0 ? R.curves[st.category] : [all.map((x) => x.recall), all.map((x) => x.precision)];
    if (own) svg.append(s("path", { class: "strong", d: linePath(...own) }));
    const dot = s("circle", { r: 5, class: "dot" });
    svg.append(dot);
    const key = h(
      "div",
      { class: "key" },
      h("span", {}, h("i", { css: { "border-color": "var(--ink)" } }), h("bdi", {}, name)),
      h("span", {}, t("recall-plot.key")),
    );
    return [plotCard(t("recall-plot"), key, svg), dot];
  }

  function scorePlot(all) {
    const svg = drag(plotFrame(t("score-plot.label"), ticks));
    const xs = all.map((_, level) => place(level));
    for (const [key, color] of [
      ["precision", "var(--tp)"],
      ["recall", "var(--fn)"],
      ["f1", "var(--ink)"],
    ]) {
      svg.append(
        s("path", {
          class: "ln",
          stroke: color,
          d: linePath(
            xs,
            all.map((x) => x[key]),
          ),
        }),
      );
    }
    const line = s("line", { class: "now", y1: plotY(0), y2: plotY(1) });
    svg.append(line);
    const key = legend(
      ["var(--tp)", t("key.precision")],
      ["var(--fn)", t("key.recall")],
      ["var(--ink)", t("key.f1")],
    );
    return [plotCard(t("score-plot"), key, svg), line];
  }

  function histogram() {
    const svg = drag(plotFrame(t("histogram.label"), ticks, false));
    const bins = 40;
    const right = new Float64Array(bins);
    const wrong = new Float64Array(bins);
    for (let level = 0; level < counts.levels; level++) {
      const bin = Math.min(bins - 1, Math.floor(place(level) * bins + 1e-9));
      right[bin] += counts.exactly(level, st.category, 0);
      for (let reason = 1; reason <= counts.reasons; reason++)
        wrong[bin] += counts.exactly(level, st.category, reason);
    }
    const top = Math.max(1, ...right.map((v, i) => v + wrong[i]));
    const width = (plotX(1) - plotX(0)) / bins;
    const column = (i, from, to, fill) =>
      s("rect", {
        x: plotX(i / bins) + 0.5,
        width: width - 1,
        y: plotY(to / top),
        height: Math.max(0, plotY(from / top) - plotY(to / top)),
        fill,
      });
    right.forEach((v, i) =>
      svg.append(column(i, 0, wrong[i], "var(--fp)"), column(i, wrong[i], wrong[i] + v, "var(--tp)")),
    );
    const line = s("line", { class: "now", y1: plotY(0), y2: plotY(1) });
    svg.append(line);
    return [
      plotCard(t("histogram"), legend(["var(--tp)", t("key.true")], ["var(--fp)", t("key.false")]), svg),
      line,
    ];
  }

  return () => {
    if (drawnFor !== st.category) {
      drawnFor = st.category;
      const all = R.levels.map((_, level) => counts.counts(level, st.category));
      const made = R.curves.some((curve) => curve) ? recallPlot(all) : [null, null];
      const [second, n2] = scorePlot(all);
      const [third, n3] = histogram();
      holder.replaceChildren(...[made[0], second, third].filter(Boolean));
      moving = { dot: made[1], lines: [n2, n3], all };
    }
    const x = plotX(place(st.level));
    for (const line of moving.lines) {
      line.setAttribute("x1", x);
      line.setAttribute("x2", x);
    }
    if (!moving.dot) return;
    const own = moving.all[st.level];
    if (isNumber(own.recall)) {
      moving.dot.setAttribute("cx", plotX(own.recall));
      moving.dot.setAttribute("cy", plotY(own.precision));
      moving.dot.removeAttribute("display");
    } else moving.dot.setAttribute("display", "none");
  };
}
