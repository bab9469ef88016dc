// Two runs of one ground truth: what changed per class, and on which images, side by side.

const CHANGES = ["broken", "fixed", "both", "right"];
const FEW_DELTAS = 20;

function drawPage(X, sources) {
  const pairs = [X, ...X.more].map((own) => ({
    ...X,
    ...own,
    pictures: own.images.map((image) => X.pictures[image]),
    sources: own.images.map((image) => sources[image]),
  }));
  // Of several runs the best is shown first, or that which follows it.
  const best = X.ranking.length ? pairs.findIndex((pair) => pair.names[1] === X.ranking[0].run) : 0;
  const st = { pair: Math.max(0, best), change: "", category: -1, all: false, order: { key: "delta", direction: 1 } };
  const opening = h("div", { id: "opening" });
  head(X, t(X.more.length ? "page.compare-many" : "page.compare"), opening);
  foot(
    X,
    t("compare.foot", {
      other: short(told(X.more.length ? t("compare.each") : X.names[1])),
      first: short(X.names[0]),
    }),
  );

  function show() {
    byId("main").replaceChildren();
    byId("barin").replaceChildren();
    drawPair(pairs[st.pair]);
  }

  function pairTabs() {
    if (pairs.length < 2) return null;
    const choose = (i) => () => {
      Object.assign(st, { pair: i, change: "", category: -1 });
      show();
      byId("head").querySelector(".tabs [aria-pressed=true]").focus();
    };
    const tab = (pair, i) => {
      const attributes = { class: "chip", "aria-pressed": String(i === st.pair), on: { click: choose(i) } };
      return h("button", attributes, nameOf(pair.names[1], 40), " ", deltaText(pair.summary[0]));
    };
    return [
      X.verdict ? h("p", { class: "said" }, clean(X.verdict)) : null,
      X.ranking.length ? rankingTable(X.ranking) : null,
      h("p", { class: "said" }, phrase("compare.against", { first: nameOf(X.names[0], 40) })),
      h("div", { class: "tabs", role: "group", "aria-label": t("compare.runs") }, pairs.map(tab)),
    ];
  }

  function drawPair(P) {
    opening.replaceChildren(...[pairTabs(), compareHero(P)].flat().filter(Boolean));
    const parts = [];
    let gallery = null;
    const redraw = makeRedraw(parts, () => gallery);
    parts.push(compareBar(P, st, redraw));
    compareTiles(P);
    byId("main").append(definitionChips(P.definition.replace(": ", "; ").split("; ")));
    metricTable(P);
    parts.push(deltaTable(P, st, redraw));
    if (P.curves.length) parts.push(runCurves(P, st));
    if (P.slices.length) runSlices(P);
    changeList(P, st, (name) => gallery.openImage(name));
    gallery = compareGallery(P, st, P.sources, redraw);
    parts.forEach((part) => part());
    gallery.draw();
  }
  show();
}

// All runs, best first, each with its distance from the best.
function rankingTable(ranking) {
  const between = (row) => ({ delta: row.delta, low: row.deltaLow, high: row.deltaHigh, chance: row.chance });
  const most = farthest(ranking.map(between));
  const labels = [t("column.run"), ranking[0].key, t("column.interval"), t("column.to-best"), t("column.plot")];
  const span = (row) =>
    isNumber(row.low) && isNumber(row.high) ? `${percent(row.low)} … ${percent(row.high)}` : "–";
  const rows = ranking.map((row, i) => [
    [nameOf(row.run, 40), row.same.length ? ` = ${row.same.map((name) => short(name, 24)).join(" = ")}` : null],
    percent(row.value),
    span(row),
    i ? points(row.delta) : "–",
    i ? lowHigh(between(row), most) : null,
  ]);
  return h("div", { class: "card pad ranking" }, plainTable(t("compare.runs"), labels, rows));
}

function compareBar(X, st, redraw) {
  const clear = h("button", {
    class: "btn clear",
    id: "clear",
    on: {
      click: () => {
        Object.assign(st, { change: "", category: -1 });
        redraw();
      },
    },
  });
  const nav = links(
    ["top", "metrics", "classes", ...(X.curves.length ? ["curves"] : []), "changes", "images"].map((id) => [
      id,
      t("section." + id),
    ]),
  );
  nav.append(clear);
  byId("barin").append(nav);
  return () => {
    const texts = [
      st.change && t("change." + st.change),
      st.category >= 0 ? short(X.categories[st.category], 24) : "",
    ].filter(Boolean);
    clear.hidden = !texts.length;
    clear.textContent = texts.join(" · ") + "  ✕";
  };
}

// The difference that matters most, and what it means.
function compareHero(X) {
  const [row] = X.summary;
  const names = { first: nameOf(X.names[0], 40), other: nameOf(X.names[1], 40) };
  const word = { up: "better", down: "worse" }[judged(row)] || (isNumber(row.low) ? "chance" : "unknown");
  const worse = X.classes.filter(
    (own) => isNumber(own.delta) && own.delta < 0 && isNumber(own.p) && own.p < 0.05,
  );
  const better = X.classes.filter((own) => own.delta > 0 && isNumber(own.p) && own.p < 0.05);
  const about = (list, key) =>
    list.length
      ? [
          " ",
          phrase(key, {
            n: list.length,
            names: list.slice(0, 3).map((own, i) => [i ? ", " : "", nameOf(own.name, 24)]),
          }),
        ]
      : null;
  const { fixed = 0, broken = 0 } = X.counts;
  const shown = h("b", { "data-key": row.name, "data-value": row.delta }, deltaText(row));
  return h(
    "div",
    { class: "hero" },
    h(
      "div",
      { class: "number" },
      h(
        "div",
        { class: "l" },
        explain(row.name, metricText(row.name)),
        row.lower ? " · " + t("about.lower") : null,
      ),
      h("div", { class: "v" }, shown),
      h("div", { class: "l" }, t("from-to", { first: percent(row.first), other: percent(row.other) })),
    ),
    h(
      "div",
      { class: "verdict" },
      h(
        "p",
        {},
        phrase("compare." + word, names),
        isNumber(row.low)
          ? " " + t("compare.between", { low: points(row.low), high: points(row.high) })
          : null,
        about(better, "compare.classes-better"),
        about(worse, "compare.classes-worse"),
      ),
      h("p", {}, t("compare.images-changed", { fixed, broken })),
    ),
  );
}

function compareTiles(X) {
  const images = CHANGES.map((key) =>
    h(
      "div",
      { class: "card tile" },
      h("div", { class: "l" }, t("change." + key)),
      h(
        "div",
        { class: "v" },
        h("b", { "data-key": key, "data-value": X.counts[key] }, count(X.counts[key] || 0)),
      ),
      h("div", { class: "s" }, t("tile.of-images")),
    ),
  );
  byId("main").append(h("div", { class: "tiles even" }, images));
}

function deltaTable(X, st, redraw) {
  const number = (key, label, show) => ({
    key,
    label,
    value: (row) => row[key],
    cell: (row) => show(row),
    data: (row) => ({ "data-key": key, "data-value": row[key] }),
  });
  const columns = [
    { key: "name", label: t("column.class"), text: true, value: (row) => row.name },
    number("gt", t("column.objects"), (row) => count(row.gt)),
    number("first", short(X.names[0], 18), (row) => percent(row.first)),
    number("other", short(X.names[1], 18), (row) => percent(row.other)),
    number("delta", t("column.difference"), deltaText),
    { key: "interval", label: t("column.interval"), fixed: true, cell: interval },
    { key: "plot", label: t("column.plot"), fixed: true, class: "l", cell: (row) => lowHigh(row, most) },
  ];
  const table = sortedTable({
    caption: t("compare.caption", { metric: X.metric }),
    columns,
    order: st.order,
    onSort: () => list.draw(),
  });
  const numbers = new Map(X.categories.map((name, i) => [name, i]));
  const rows = () => X.classes.map((row, i) => ({ i, ...row, category: numbers.get(row.name) ?? -1 }));
  const chosen = (row) => row.category >= 0 && row.category === st.category;
  let most = 0; // how far the lines of the rows shown reach
  const prepare = (cut) => {
    most = farthest(cut);
  };
  const list = classRows({ table, st, few: FEW_DELTAS, rows, chosen, line, prepare });
  section(
    "classes",
    t("compare.classes", { metric: X.metric }),
    t("compare.classes.hint", { coverage: t("coverage") }),
    list.parts,
  );

  function line(row) {
    const on = chosen(row);
    const choose = () => {
      st.category = on ? -1 : row.category;
      redraw();
      if (st.category >= 0) byId("images").scrollIntoView();
    };
    const name = nameOf(row.name, 40);
    const attributes = { class: "lk", "aria-pressed": String(on), on: { click: choose } };
    return h(
      "tr",
      { role: "row", class: on ? "on" : null, "data-class": row.name },
      h("th", { scope: "row", role: "rowheader" }, row.category < 0 ? name : h("button", attributes, name)),
      table.cells(row),
    );
  }
  return list.update;
}

function judgedAt(X) {
  if (!X.scores) return "";
  const [first, other] = X.scores.map((score) => String(Number(score.toPrecision(6))));
  return t("compare.counted", {
    scores: first === other ? first : t("compare.two-scores", { first, other }),
  });
}

const changeOf = ([first, other]) => (first && other ? "both" : first ? "fixed" : other ? "broken" : "right");

function compareGallery(X, st, sources, redraw) {
  const runs = X.runs.map((columns, run) =>
    boxesByImage(X, columns, (i) => {
      const name = X.categories[columns.class[i]];
      return {
        key: `${run}-${i}`,
        kind: columns.kind[i],
        category: columns.class[i],
        box: columns.box.map((column) => column[i]),
        score: columns.score[i],
        name,
        label: columns.kind[i] === "FN" ? t("missed-class", { name: short(name, 22) }) : short(name, 22),
        why: told(columns.why[i]),
        ...shapeOf(columns, i, X.skeletons[name]),
      };
    }),
  );
  const isError = (box) => box.kind === "FP" || box.kind === "FN";
  const matches = (box) => isError(box) && (st.category < 0 || box.category === st.category);
  const change = (image) => changeOf(X.errors[image]);
  const classes = select(
    t("select.class"),
    [["-1", t("select.all-classes")], ...X.categories.map((name, i) => [i, short(name, 40)])],
    (value) => {
      st.category = Number(value);
      redraw();
    },
  );
  const changes = select(
    t("select.change"),
    [["", t("select.all-changes")], ...CHANGES.map((key) => [key, t("change." + key)])],
    (value) => {
      st.change = value;
      redraw();
    },
  );
  const gallery = makeGallery(X, sources, {
    title: t("compare.images"),
    hint: t("compare.images.hint", {
      first: short(X.names[0], 30),
      other: short(X.names[1], 30),
      counted: judgedAt(X),
    }),
    empty: t("compare.empty"),
    panes: (image) => runs.map((run) => run(image)),
    paneNames: X.names.map((name) => short(name, 30)),
    matches,
    narrowed: () => st.category >= 0,
    include: (image, list) =>
      (!st.change || change(image) === st.change) && (st.category < 0 || list.some(matches)),
    rank: (image, list, order) => {
      const [first, other] = X.errors[image];
      return [
        order === "worse" ? other - first : order === "better" ? first - other : Math.abs(first - other),
        first + other,
      ];
    },
    orders: ["change", "worse", "better", "name"],
    filters: [classes, changes],
    toggles: ["FP", "FN", "TP", "GT"],
    caption: [],
    shown: { GT: false },
    shaped: hasShapes(...X.runs),
    labelled: isError,
    badge: (image) =>
      h(
        "span",
        { class: "badge", "data-change": change(image) },
        t("compare.badge", {
          change: t("change." + change(image)).toLowerCase(),
          errors: X.errors[image].join(" → "),
        }),
      ),
    drawn: () => {
      classes.value = String(st.category);
      changes.value = st.change;
    },
  });
  gallery.cards.classList.add("pairwise");
  return gallery;
}
