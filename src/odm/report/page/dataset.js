// The boxes of one dataset on their images: a gallery with classes and, for detections, a score slider.

const FEW_ROWS = 15;

function datasetState(X) {
  const st = { category: -1, level: 0, all: false, order: { key: "boxes", direction: -1 } };
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=");
    if (key === "c" && X.classes[value]) st.category = Number(value);
    if (key === "s" && value !== "" && isFinite(value)) {
      st.level = Math.max(0, X.levels.filter((level) => level <= Number(value) + 1e-12).length - 1);
    }
  }
  return st;
}

const shownLevel = (X, level) => String(Number(X.levels[level].toPrecision(12)));

function datasetBar(X, st, redraw, sections) {
  const clear = h("button", {
    class: "btn clear",
    id: "clear",
    on: {
      click: () => {
        st.category = -1;
        redraw();
      },
    },
  });
  const nav = links(sections);
  nav.append(clear);
  let update = () => {};
  if (X.levels.length) {
    const move = (event) => {
      st.level = Number(event.target.value);
      redraw();
    };
    const attributes = {
      type: "range",
      id: "score",
      min: 0,
      max: X.levels.length - 1,
      step: 1,
      on: { input: move },
    };
    const range = h("input", attributes);
    const output = h("output", { for: "score" });
    byId("barin").append(
      h("div", { class: "slide" }, h("label", { for: "score" }, t("score-at-least")), range, output),
    );
    update = () => {
      range.value = st.level;
      output.textContent = shownLevel(X, st.level);
      range.setAttribute("aria-valuetext", t("spoken-least", { score: shownLevel(X, st.level) }));
    };
  }
  byId("barin").append(nav);
  return () => {
    update();
    clear.hidden = st.category < 0;
    clear.textContent = st.category < 0 ? "" : short(X.classes[st.category].name, 24) + "  ✕";
    const parts = [];
    if (X.levels.length && st.level) parts.push("s=" + shownLevel(X, st.level));
    if (st.category >= 0) parts.push("c=" + st.category);
    keepInAddress(parts.join("&"));
  };
}

// `columns` are [key, show(value), label?] of the rows of X.classes.
function datasetClasses(X, st, redraw, columns) {
  const table = sortedTable({
    caption: t("list.classes"),
    columns: [
      { key: "name", label: t("column.class"), text: true, value: (row) => row.name },
      ...columns.map(([key, show, label]) => ({
        key,
        label: label || t("column." + key),
        value: (row) => row[key],
        cell: (row) => show(row[key]),
        data: (row) => ({ "data-key": key, "data-value": row[key] }),
      })),
    ],
    order: st.order,
    onSort: () => list.draw(),
  });
  const rows = () => X.classes.map((row, i) => ({ i, ...row }));
  const chosen = (row) => row.i === st.category;
  const list = classRows({ table, st, few: FEW_ROWS, rows, chosen, line });
  section("classes", t("list.classes"), t("list.hint"), list.parts);
  function line(row) {
    const choose = () => {
      st.category = st.category === row.i ? -1 : row.i;
      redraw();
      if (st.category >= 0) byId("images").scrollIntoView();
    };
    const pressed = String(row.i === st.category);
    const button = h(
      "button",
      { class: "lk", "aria-pressed": pressed, on: { click: choose } },
      nameOf(row.name, 40),
    );
    const on = row.i === st.category ? "on" : null;
    const name = h("th", { scope: "row", role: "rowheader" }, button);
    return h("tr", { role: "row", class: on, "data-class": row.name }, name, table.cells(row));
  }
  return list.update;
}

// Columns of boxes as lists by image: `make(i)` says what box i is.
function boxesByImage(X, columns, make) {
  const lists = X.pictures.map(() => []);
  columns.image.forEach((image, i) => lists[image].push(i));
  return (image) => lists[image].map(make);
}

// Colours of classes on pictures, told apart under protan, deutan and tritan vision: in a simulation the nearest two are
// 0.116 apart in OKLab. Then the same with dashes. The classes with most boxes come first; of more than 24 some look alike.
const COLORS = ["#76ff32", "#3276ff", "#ffffff", "#e50098", "#c38d22", "#b092eb", "#ebb092", "#cacaf5"];
const DASHES = ["none", "9 4", "2 4"];
const IN_LEGEND = COLORS.length * DASHES.length;

function colorOrder(X) {
  return X.classes.map((_, i) => i).sort((a, b) => X.classes[b].boxes - X.classes[a].boxes || a - b);
}

function classColor(X, category) {
  X.colors ||= new Map(colorOrder(X).map((own, n) => [own, n % IN_LEGEND]));
  const n = X.colors.get(category);
  const stroke = COLORS[n % COLORS.length];
  return { stroke, dash: DASHES[Math.floor(n / COLORS.length)] };
}

// The classes with their colours; each is a filter.
function colorLegend(X, st, redraw) {
  const chips = colorOrder(X)
    .slice(0, IN_LEGEND)
    .filter((i) => X.classes[i].boxes)
    .map((i) => {
      const { stroke, dash } = classColor(X, i);
      const line = s("svg", { class: "swatch", viewBox: "0 0 26 12", "aria-hidden": "true" });
      line.append(
        s("path", { class: "under", d: "M2 6H24" }),
        s("path", { d: "M2 6H24", css: { stroke, "stroke-dasharray": dash } }),
      );
      const choose = () => {
        st.category = st.category === i ? -1 : i;
        redraw();
      };
      const about = t("legend.about", {
        boxes: t("boxes", { n: X.classes[i].boxes }),
        images: t("images", { n: X.classes[i].images }),
      });
      return [
        i,
        h(
          "button",
          { class: "chip tg", "data-tip": about, on: { click: choose } },
          line,
          nameOf(X.classes[i].name, 24),
          h("b", {}, count(X.classes[i].boxes)),
        ),
      ];
    });
  const rest = X.classes.filter((row) => row.boxes).length - chips.length;
  const element = h(
    "div",
    { class: "legend", role: "group", "aria-label": t("legend") },
    chips.map(([, chip]) => chip),
    rest > 0 ? h("span", { class: "cap" }, t("legend.rest", { n: rest })) : null,
  );
  const update = () => {
    for (const [i, chip] of chips) chip.setAttribute("aria-pressed", String(i === st.category));
  };
  return [element, update];
}

const sizeText = (low, high) => String(Math.round(Math.abs(high - low)));
const flagWords = (columns, i) => columns.flagNames.filter((_, bit) => columns.flags[i] & (1 << bit));

// What images may have, and how many of the dataset do.
function imagesHave(X) {
  const text = ({ key, name, n }) => t("has." + key, { n: count(n), name: short(name, 30) });
  return [["-1", t("has.all", { n: count(X.imageCount) })], ...X.kinds.map((row, i) => [i, text(row)])];
}

function datasetGallery(X, st, sources, redraw, title) {
  const columns = X.boxes;
  const scored = columns.score.length > 0;
  const make = (i) => {
    const name = X.classes[columns.class[i]].name;
    const flags = flagWords(columns, i);
    const [x0, y0, x1, y1] = columns.box.map((column) => column[i]);
    const size = t("size", { width: sizeText(x0, x1), height: sizeText(y0, y1) });
    return {
      key: "b" + i,
      kind: flags.includes("crowd") || flags.includes("group-of") ? "IG" : "TP",
      category: columns.class[i],
      box: [x0, y0, x1, y1],
      score: scored ? columns.score[i] : null,
      name,
      color: classColor(X, columns.class[i]),
      ...shapeOf(columns, i, X.skeletons[name]),
      label: short(name, 22),
      why: [size, ...flags, t("row", { row: String(columns.row[i]) })].join(" · "),
    };
  };
  const all = boxesByImage(X, columns, make);
  const least = () => (scored ? X.levels[st.level] : -Infinity);
  const boxes = (image) => all(image).filter((box) => box.score === null || box.score >= least() - 5e-5);
  const matches = (box) => st.category < 0 || box.category === st.category;
  const choose = (value) => {
    st.category = Number(value);
    redraw();
  };
  const classes = select(
    t("select.class"),
    [["-1", t("select.all-classes")], ...X.classes.map((row, i) => [i, short(row.name, 40)])],
    choose,
  );
  const [legend, update] = colorLegend(X, st, redraw);
  const kinds = select(t("select.has"), imagesHave(X), (value) => {
    st.has = Number(value);
    redraw();
  });
  return makeGallery(X, sources, {
    title,
    hint: t("gallery.hint"),
    columns: X.columns,
    empty: t("gallery.empty"),
    panes: (image) => [boxes(image)],
    matches,
    narrowed: () => st.category >= 0,
    include: (image, list) =>
      (st.category < 0 || list.some(matches)) && (!(st.has >= 0) || X.kinds[st.has].shown[image]),
    rank: (image, list, order) => [
      order === "most-boxes"
        ? list.filter(matches).length
        : order === "fewest-boxes"
          ? -list.filter(matches).length
          : 0,
    ],
    orders: ["given", "most-boxes", "fewest-boxes", "name"],
    filters: X.kinds.length > 1 ? [classes, kinds] : [classes],
    toggles: ["TP"],
    shaped: hasShapes(columns),
    names: { TP: t("gallery.boxes") },
    caption: ["TP"],
    keys: { TP: "boxes" },
    shown: {},
    labelled: () => true,
    status: () => (scored ? t("score", { score: shownLevel(X, st.level) }) : ""),
    legend,
    drawn: () => {
      classes.value = String(st.category);
      update();
    },
  });
}

// Run all parts at most once per frame, the gallery a little later.
function makeRedraw(parts, gallery) {
  let queued = false;
  let later = 0;
  return () => {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => {
      queued = false;
      parts.forEach((part) => part());
      clearTimeout(later);
      later = setTimeout(() => gallery().draw(), 60);
    });
  };
}

function datasetFoot(X) {
  const part = X.pictures.length < X.imageCount;
  const shown = t(part ? "images-some-shown" : "images-all-shown", {
    shown: X.pictures.length,
    n: X.imageCount,
  });
  foot(X, t("rows-of-file", { shown }));
}
