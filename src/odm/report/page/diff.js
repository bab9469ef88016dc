// Two versions of annotations: what changed by class, and old and new boxes over one picture.

const CHANGED = ["added", "removed", "moved", "relabelled", "flags", "shape"];
const RARE = ["flags", "shape"]; // shown only where there are some
const BITS = { added: 1 | 32, removed: 2 | 64, moved: 4, relabelled: 8, flags: 16, shape: 128 };
const PAIRS_SHOWN = 12;

const changesOf = (X) => CHANGED.filter((key) => !RARE.includes(key) || X.counts[key]);

function drawPage(X, sources) {
  const holds = (side) =>
    t("images-with-boxes", { images: t("images", { n: side.images }), boxes: t("boxes", { n: side.boxes }) });
  const from = t("from-to", { first: holds(X.old), other: holds(X.new) });
  head(X, t("page.diff"), h("p", { class: "cap" }, from));
  foot(X, "");
  const st = { category: -1, change: "", all: false, order: { key: "changed", direction: -1 } };
  const parts = [];
  let gallery = null;
  const redraw = makeRedraw(parts, () => gallery);
  parts.push(diffBar(X, st, redraw));
  diffTiles(X);
  parts.push(diffClasses(X, st, redraw));
  gallery = diffGallery(X, st, sources, redraw);
  parts.forEach((part) => part());
  gallery.draw();
}

function diffBar(X, st, redraw) {
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
      st.change && t("column." + st.change),
      st.category < 0 ? "" : short(X.classes[st.category].name, 24),
    ].filter(Boolean);
    clear.hidden = !texts.length;
    clear.textContent = texts.join(" · ") + "  ✕";
  };
}

function diffTiles(X) {
  const tile = (key, n, what, prefix = "diff.") =>
    h(
      "div",
      { class: "card tile" },
      h("div", { class: "l" }, t(prefix + key)),
      h("div", { class: "v" }, h("b", { "data-key": key, "data-value": n }, count(n))),
      h("div", { class: "s" }, what),
    );
  const rows = (...tiles) => byId("main").append(h("div", { class: "tiles even" }, tiles));
  const boxes = (key) => t("boxes", { n: X.counts[key] });
  rows(
    changesOf(X).map((key) => tile(key, X.counts[key], t("diff.of-boxes"), "column.")),
    tile("unchanged", X.counts.unchanged, t("diff.of-boxes")),
  );
  rows(
    tile("images-changed", X.imageCounts.changed, t("diff.of-images", { n: X.imageCount })),
    tile("images-added", X.imageCounts.added, boxes("image_added")),
    tile("images-removed", X.imageCounts.removed, boxes("image_removed")),
    tile("images-renamed", X.imageCounts.renamed, t("diff.guess")),
  );
}

function diffClasses(X, st, redraw) {
  const update = datasetClasses(X, st, redraw, [
    ["old", count],
    ["new", count],
    ["changed", count],
    ...changesOf(X).map((key) => [key, count]),
  ]);
  const pair = (row) =>
    h("span", { class: "badge" }, nameOf(row.old, 24), " → ", nameOf(row.new, 24), ` ${count(row.count)}`);
  const rest = X.relabelled.length - PAIRS_SHOWN;
  if (X.relabelled.length)
    byId("classes").append(
      h(
        "div",
        { class: "pairs" },
        h("h3", {}, t("column.relabelled")),
        X.relabelled.slice(0, PAIRS_SHOWN).map(pair),
        rest > 0 ? h("span", { class: "cap" }, t("and-more", { n: count(rest) })) : null,
      ),
    );
  return update;
}

// The boxes of an image. One that moved is there twice: where it is, and where it was.
function diffBoxes(X) {
  const columns = X.boxes;
  return boxesByImage(X, columns, (i) => {
    const name = X.classes[columns.class[i]].name;
    const was = columns.was[i] < 0 ? "" : short(X.classes[columns.was[i]].name, 22);
    const [x0, y0, x1, y1] = columns.box.map((column) => column[i]);
    const said = CHANGED.filter((key) => columns.change[i] & BITS[key]).map((key) =>
      t("column." + key).toLowerCase(),
    );
    const [width, height] = [x1 - x0, y1 - y0].map((edge) => Math.round(Math.abs(edge)));
    return {
      key: "b" + i,
      kind: columns.kind[i],
      change: columns.change[i],
      category: columns.class[i],
      was: columns.was[i],
      box: [x0, y0, x1, y1],
      score: null,
      name,
      label: was ? `${was} → ${short(name, 22)}` : short(name, 22),
      why: [
        columns.kind[i] === "GT" ? t("diff.old-place").toLowerCase() : said.join(" · "),
        was && t("diff.was", { name: was }),
        columns.shift[i] && t("diff.by", { px: columns.shift[i] }),
        columns.flags[i],
        t("size", { width, height }),
      ]
        .filter(Boolean)
        .join(" · "),
    };
  });
}

function diffGallery(X, st, sources, redraw) {
  const boxes = diffBoxes(X);
  const matches = (box) =>
    box.change > 0 &&
    (st.category < 0 || box.category === st.category || box.was === st.category) &&
    (!st.change || (box.change & BITS[st.change]) > 0);
  const narrowed = () => st.category >= 0 || Boolean(st.change);
  const names = X.classes.map((row, i) => [i, short(row.name, 40)]);
  const classes = select(t("select.class"), [["-1", t("select.all-classes")], ...names], (value) => {
    st.category = Number(value);
    redraw();
  });
  const kinds = changesOf(X).map((key) => [key, t("column." + key)]);
  const changes = select(t("select.change"), [["", t("select.all-changes")], ...kinds], (value) => {
    st.change = value;
    redraw();
  });
  return makeGallery(X, sources, {
    title: t("compare.images"),
    hint: t("diff.images.hint"),
    empty: t("diff.empty"),
    panes: (image) => [boxes(image)],
    matches,
    narrowed,
    include: (image, list) => !narrowed() || list.some(matches),
    rank: (image, list) => [list.filter((box) => matches(box) && box.kind !== "GT").length],
    orders: ["change", "name"],
    filters: [classes, changes],
    toggles: ["TP", "FP", "FN", "GT", "OT"],
    names: {
      TP: t("column.added"),
      FP: t("column.removed"),
      FN: t("column.changed"),
      GT: t("diff.old-place"),
      OT: t("diff.unchanged"),
    },
    caption: ["TP", "FP", "FN"],
    shown: {},
    labelled: (box) => box.change > 0 && box.kind !== "GT",
    details: (image) =>
      X.oldNames[image]
        ? h("ul", { class: "facts" }, h("li", {}, t("diff.old-name"), " ", nameOf(X.oldNames[image], 80)))
        : null,
    badge: (image) => {
      const what = X.imageChanges[image];
      return what ? h("span", { class: "badge", "data-change": what }, t("diff.image." + what)) : null;
    },
    drawn: () => {
      classes.value = String(st.category);
      changes.value = st.change;
    },
  });
}
