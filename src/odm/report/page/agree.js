// Two annotators of the same images: how far they agree, and the boxes of both over one picture.

function drawPage(X, sources) {
  const [a, b] = X.names.map((name) => short(name, 30));
  const holds = (n) => t("boxes", { n });
  const [first, other] = X.numbers.boxes.map(holds);
  head(X, t("page.agree"), h("p", { class: "cap" }, t("agree.holds", { a, first, b, other })));
  foot(X, "");
  const st = { category: -1, change: "", all: false, order: { key: "f1", direction: 1 } };
  const kinds = {
    "only-a": { bits: 2, label: t("agree.only", { name: a }) },
    "only-b": { bits: 1, label: t("agree.only", { name: b }) },
    "other-class": { bits: 8, label: t("agree.other-class") },
  };
  const parts = [];
  let gallery = null;
  const redraw = makeRedraw(parts, () => gallery);
  parts.push(pairsBar(X, st, redraw, kinds));
  agreeTiles(X, kinds);
  const columns = [
    ["f1", percent],
    ["first", count, short(X.names[0], 18)],
    ["other", count, short(X.names[1], 18)],
    ["pairs", count],
  ];
  parts.push(datasetClasses(X, st, redraw, columns));
  classPairs(X.confused, t("agree.confused", { a, b }));
  gallery = agreeGallery(X, st, sources, redraw, kinds, a);
  parts.forEach((part) => part());
  gallery.draw();
}

function agreeTiles(X, kinds) {
  const share = (key, shown) =>
    pairsTile(key, t("agree." + key), X.numbers[key], t("agree." + key + ".about"), shown(X.numbers[key]));
  const kappa = (value) => (isNumber(value) ? value.toFixed(2) : "–");
  tileRow(
    share("f1", withUnit),
    share("f1_location", withUnit),
    share("mean_iou", kappa),
    share("kappa", kappa),
  );
  tileRow(
    pairsTile("agreed", t("agree.agreed"), X.counts.agreed, t("agree.pairs")),
    Object.entries(kinds).map(([key, { label }]) => pairsTile(key, label, X.counts[key], t("diff.of-boxes"))),
  );
}

function agreeGallery(X, st, sources, redraw, kinds, a) {
  const columns = X.boxes;
  const kindOf = { TP: kinds["only-b"].label, FP: kinds["only-a"].label, FN: t("agree.other-class") };
  const of = t("agree.box-of", { name: a });
  const boxes = pairedBoxes(X, (i, was) => [
    columns.kind[i] === "GT" ? of : kindOf[columns.kind[i]] || t("agree.agreed"),
    was && t("agree.says", { who: a, name: was }),
    columns.iou[i] === null ? "" : t("measure.bbox", { iou: columns.iou[i].toFixed(2) }),
  ]);
  return pairsGallery(X, st, sources, redraw, kinds, boxes, {
    all: t("agree.all"),
    title: t("agree.images"),
    hint: t("agree.images.hint"),
    empty: t("agree.empty"),
    orders: ["disagree", "name"],
    shown: { GT: false }, // nearly where the box of the other is
    names: { ...kindOf, GT: of, OT: t("agree.agreed") },
  });
}
