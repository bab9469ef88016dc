// Two versions of annotations: what changed by class, and old and new boxes over one picture.

const BITS = { added: 1 | 32, removed: 2 | 64, moved: 4, relabelled: 8, flags: 16, shape: 128 };
const RARE = ["flags", "shape"]; // shown only where there are some

function diffKinds(X) {
  const some = Object.entries(BITS).filter(([key]) => !RARE.includes(key) || X.counts[key]);
  return Object.fromEntries(some.map(([key, bits]) => [key, { bits, label: t("column." + key) }]));
}

function drawPage(X, sources) {
  const holds = (side) =>
    t("images-with-boxes", { images: t("images", { n: side.images }), boxes: t("boxes", { n: side.boxes }) });
  const from = t("from-to", { first: holds(X.old), other: holds(X.new) });
  head(X, t("page.diff"), h("p", { class: "lead" }, diffVerdict(X)), h("p", { class: "cap" }, from));
  foot(X, "");
  const st = { category: -1, change: "", all: false, order: { key: "changed", direction: -1 } };
  const parts = [];
  let gallery = null;
  const redraw = makeRedraw(parts, () => gallery);
  const kinds = diffKinds(X);
  parts.push(pairsBar(X, st, redraw, kinds));
  diffTiles(X, kinds);
  const whole = ["image_added", "image_removed"].filter((key) => X.counts[key]);
  const columns = [...Object.keys(kinds), ...whole].map((key) => [key, count]);
  parts.push(datasetClasses(X, st, redraw, [["old", count], ["new", count], ["changed", count], ...columns]));
  classPairs(X.relabelled, t("column.relabelled"));
  gallery = diffGallery(X, st, sources, redraw, kinds);
  parts.forEach((part) => part());
  gallery.draw();
}

function diffVerdict(X) {
  const total = Object.values(X.boxCounts).reduce((sum, n) => sum + n, 0);
  const images = X.imageCounts.added + X.imageCounts.removed + X.imageCounts.renamed + X.imageCounts.resized;
  if (!images && !X.boxCounts.changed) return t("diff.same");
  return [
    X.boxCounts.changed || total ? t("diff.differs", { n: X.boxCounts.changed, total }) : null,
    images ? t("diff.differs-images", { n: images }) : null,
  ]
    .filter(Boolean)
    .join(" ");
}

function diffTiles(X, kinds) {
  const of = Object.entries(kinds).map(([key, { label }]) => [key, label]);
  tileRow(
    [...of, ["unchanged", t("diff.unchanged")]].map(([key, label]) =>
      pairsTile(key, label, X.counts[key], t("diff.of-boxes")),
    ),
  );
  const images = (key, what) => pairsTile("images-" + key, t("diff.images." + key), X.imageCounts[key], what);
  const boxes = (key) => t("boxes", { n: X.counts[key] });
  tileRow(
    images("changed", t("diff.of-images", { n: X.imageCount })),
    images("added", boxes("image_added")),
    images("removed", boxes("image_removed")),
    images("renamed", t("diff.guess")),
  );
}

function diffGallery(X, st, sources, redraw, kinds) {
  const columns = X.boxes;
  const said = (i) =>
    Object.values(kinds)
      .filter(({ bits }) => columns.change[i] & bits)
      .map(({ label }) => label.toLowerCase());
  const boxes = pairedBoxes(X, (i, was) =>
    columns.kind[i] === "GT" // where one was that moved
      ? [t("diff.old-place").toLowerCase()]
      : [
          ...said(i),
          was && t("diff.was", { name: was }),
          columns.shift[i] && t("diff.by", { px: columns.shift[i] }),
          columns.flags[i],
        ],
  );
  return pairsGallery(X, st, sources, redraw, kinds, boxes, {
    all: t("select.all-changes"),
    title: t("compare.images"),
    hint: t("diff.images.hint"),
    empty: t("diff.empty"),
    orders: ["change", "name"],
    names: {
      TP: t("column.added"),
      FP: t("column.removed"),
      FN: t("column.changed"),
      GT: t("diff.old-place"),
      OT: t("diff.unchanged"),
    },
    details: (image) =>
      X.oldNames[image]
        ? h("ul", { class: "facts" }, h("li", {}, t("diff.old-name"), " ", nameOf(X.oldNames[image], 80)))
        : null,
    badge: (image) => {
      const what = X.imageChanges[image];
      return what ? h("span", { class: "badge", "data-change": what }, t("diff.image." + what)) : null;
    },
  });
}
