// The images of an evaluation, worst first.

function images({ X, R, st, redraw, sources, shown }) {
  const { boxes, inCell } = makeBoxes(X, R, st);
  let cells = null;
  const cellOf = (image) => {
    const key = st.cell + "@" + st.level;
    if (!cells || cells.key !== key) cells = { key, of: new Map() };
    if (!cells.of.has(image)) cells.of.set(image, inCell(image, st.cell));
    return cells.of.get(image);
  };
  const isError = (box) => box.kind === "FP" || box.kind === "FN";
  const tagged = new Map(Object.entries(X.tags).map(([tag, list]) => [tag, new Set(list)]));
  const ofTag = (image) => !st.tag || tagged.get(st.tag).has(image);
  const narrowed = () => Boolean(st.cell || st.kind) || st.category >= 0;
  function matches(box, image) {
    if (st.cell) return cellOf(image).has(box.key);
    if (st.category >= 0 && box.category !== st.category) return false;
    if (!st.kind) return isError(box) || st.category >= 0;
    if (st.kind.length === 3) return box.kind === "FP" && box.reason === Number(st.kind[2]);
    return box.kind === st.kind;
  }
  function rank(image, list, order) {
    const hits = list.filter((box) => matches(box, image) && (st.cell || st.kind || isError(box)));
    const surest = Math.max(
      0,
      ...hits.filter((box) => box.kind === "FP").map((box) => 1 + R.levels.length + R.det.level[box.d]),
    );
    const missed = hits.filter((box) => box.kind === "FN").length;
    if (order === "sure") return [surest, hits.length];
    if (order === "missed") return [missed, hits.length];
    return [hits.length, surest];
  }
  const change = (values) => {
    Object.assign(st, values, { cell: null });
    redraw();
  };
  const classes = select(
    t("select.class"),
    [["-1", t("select.all-classes")], ...R.rows.map((row, i) => [i, short(row.class, 40)])],
    (v) => change({ category: Number(v) }),
  );
  const kindList = ["", "FP", ...X.kinds.slice(1, -1).map((_, i) => "FP" + i), "FN", "TP"];
  const kinds = select(
    t("select.kind"),
    kindList.map((kind) => [kind, kindName(X, kind) || t("select.all-errors")]),
    (v) => change({ kind: v }),
  );
  const tags = Object.keys(X.tags).length
    ? select(
        t("select.tag"),
        [["", t("select.all-images")], ...Object.keys(X.tags).map((tag) => [tag, tagName(tag)])],
        (v) => change({ tag: v }),
      )
    : null;
  const cell = h("button", { class: "chip", "aria-pressed": "true", on: { click: () => change({}) } });
  return makeGallery(X, sources, {
    title: t("images.title"),
    hint: t("images.hint"),
    empty: t("images.empty"),
    panes: (image) => [boxes(image)],
    matches,
    narrowed,
    include: (image, list) =>
      ofTag(image) &&
      (st.cell ? cellOf(image).size > 0 : !narrowed() || list.some((box) => matches(box, image))),
    rank,
    orders: ["wrong", "sure", "missed", "name"],
    filters: [classes, kinds, tags, cell],
    toggles: ["FP", "FN", "TP", "GT"],
    caption: ["FP", "FN", "TP"],
    keys: { FP: "fp", FN: "fn", TP: "tp" },
    shown,
    labelled: isError,
    shaped: hasShapes(R.det, R.gt),
    counted: (box) => st.category < 0 || box.category === st.category,
    aside: () => (st.cell || st.kind || st.tag ? t("images.only-here") : ""),
    status: () => t("score", { score: scoreText(R, st.level) }),
    drawn: () => {
      classes.value = String(st.category);
      kinds.value = st.kind;
      if (tags) tags.value = st.tag;
      cell.hidden = !st.cell;
      cell.textContent = cellName(R, st.cell) + "  ✕";
    },
  });
}
