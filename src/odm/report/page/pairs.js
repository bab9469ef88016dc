// Boxes of two datasets over one picture, and what became of each: of versions of annotations, and of annotators.

const PAIRS_SHOWN = 12;

// `kinds` are {key: {bits, label}}: what a box may be, as bits of its `change`.
function pairsBar(X, st, redraw, kinds) {
  const reset = () => {
    Object.assign(st, { change: "", category: -1 });
    redraw();
  };
  const clear = h("button", { class: "btn clear", id: "clear", on: { click: reset } });
  const nav = links(["top", "classes", "images"].map((id) => [id, t("section." + id)]));
  nav.append(clear);
  byId("barin").append(nav);
  return () => {
    const texts = [
      st.change && kinds[st.change].label,
      st.category < 0 ? "" : short(X.classes[st.category].name, 24),
    ].filter(Boolean);
    clear.hidden = !texts.length;
    clear.textContent = texts.join(" · ") + "  ✕";
  };
}

const pairsTile = (key, label, value, what, shown = count(value)) =>
  h(
    "div",
    { class: "card tile" },
    h("div", { class: "l" }, label),
    h("div", { class: "v" }, h("b", { "data-key": key, "data-value": value }, shown)),
    h("div", { class: "s" }, what),
  );

const tileRow = (...tiles) => byId("main").append(h("div", { class: "tiles even" }, tiles));

// Which class stands against which, below the table of classes: rows of {old, new, count}.
function classPairs(list, title) {
  if (!list.length) return;
  const pair = (row) =>
    h("span", { class: "badge" }, nameOf(row.old, 24), " → ", nameOf(row.new, 24), ` ${count(row.count)}`);
  const rest = list.length - PAIRS_SHOWN;
  byId("classes").append(
    h(
      "div",
      { class: "pairs" },
      h("h3", {}, title),
      list.slice(0, PAIRS_SHOWN).map(pair),
      rest > 0 ? h("span", { class: "cap" }, t("and-more", { n: count(rest) })) : null,
    ),
  );
}

// The boxes as columns; `why(i)` says what is told of one. `was` is the class that it had, or has elsewhere, or -1.
function pairedBoxes(X, why) {
  const columns = X.boxes;
  return boxesByImage(X, columns, (i) => {
    const name = X.classes[columns.class[i]].name;
    const was = columns.was[i] < 0 ? "" : short(X.classes[columns.was[i]].name, 22);
    const [x0, y0, x1, y1] = columns.box.map((column) => column[i]);
    const [width, height] = [x1 - x0, y1 - y0].map((edge) => Math.round(Math.abs(edge)));
    return {
      key: "b" + i,
      kind: columns.kind[i],
      change: columns.change[i],
      category: columns.class[i],
      was: columns.was[i],
      box: [x0, y0, x1, y1],
      ...shapeOf(columns, i, X.skeletons[name]),
      score: null,
      name,
      label: was ? `${was} → ${short(name, 22)}` : short(name, 22),
      why: [...why(i, was), t("size", { width, height })].filter(Boolean).join(" · "),
    };
  });
}

function pairsGallery(X, st, sources, redraw, kinds, boxes, options) {
  const matches = (box) =>
    box.change > 0 &&
    (st.category < 0 || box.category === st.category || box.was === st.category) &&
    (!st.change || (box.change & kinds[st.change].bits) > 0);
  const narrowed = () => st.category >= 0 || Boolean(st.change);
  const names = X.classes.map((row, i) => [i, short(row.name, 40)]);
  const classes = select(t("select.class"), [["-1", t("select.all-classes")], ...names], (value) => {
    st.category = Number(value);
    redraw();
  });
  const labels = Object.entries(kinds).map(([key, { label }]) => [key, label]);
  const changes = select(t("select.change"), [["", options.all], ...labels], (value) => {
    st.change = value;
    redraw();
  });
  return makeGallery(X, sources, {
    panes: (image) => [boxes(image)],
    matches,
    narrowed,
    include: (image, list) => !narrowed() || list.some(matches),
    rank: (image, list) => [list.filter((box) => matches(box) && box.kind !== "GT").length],
    filters: [classes, changes],
    toggles: ["TP", "FP", "FN", "GT", "OT"],
    caption: ["TP", "FP", "FN"],
    shown: {},
    shaped: hasShapes(X.boxes),
    labelled: (box) => box.change > 0 && box.kind !== "GT",
    drawn: () => {
      classes.value = String(st.category);
      changes.value = st.change;
    },
    ...options,
  });
}
