// The first screen of an evaluation: its number, what it means in a sentence, and the counts as tiles.

// ---- how the numbers are defined

function protocolTabs(X, st, show) {
  if (X.results.length < 2) return null;
  const choose = (i) => () => {
    Object.assign(st, { result: i, level: null, iou: null, cell: null, kind: "", category: -1 });
    show();
    byId("head").querySelector(".tabs [aria-pressed=true]").focus();
  };
  const tabs = X.results.map((other, i) =>
    h(
      "button",
      { class: "chip", "aria-pressed": String(i === st.result), on: { click: choose(i) } },
      other.label,
    ),
  );
  return h("div", { class: "tabs", role: "group", "aria-label": t("protocol") }, tabs);
}

function definition(R) {
  const dropped = Object.entries(R.dropped).map(([what, n]) => t("dropped", { n, what }));
  const parts = [R.protocol, ...R.definition.split("; "), ...dropped];
  if (R.scoresFrom) parts.push(t("scores-from", { name: clean(R.scoresFrom) }));
  return definitionChips(parts);
}

// ---- the number, and what it means

function hero(context) {
  const { R } = context;
  const keys = Object.keys(R.summary);
  const lower = R.lower.includes(keys[0]);
  const between = R.intervals[keys[0]];
  const number = (key, shown) => h("b", { "data-key": key, "data-value": R.summary[key] }, shown);
  const range = (of, unit) =>
    of && isNumber(of[0]) && isNumber(of[1]) ? [percent(of[0]), percent(of[1]) + (unit ? " %" : "")] : null;
  const own = range(between, true);
  const small = (key) =>
    h(
      "div",
      {},
      number(key, percent(R.summary[key])),
      explain(key, metricText(key)),
      range(R.intervals[key])
        ? h(
            "small",
            {},
            t("range", { low: percent(R.intervals[key][0]), high: percent(R.intervals[key][1]) }),
          )
        : null,
    );
  const rest = keys.slice(1).filter((key) => key !== "score");
  return h(
    "div",
    { class: "hero" },
    h(
      "div",
      { class: "number" },
      h(
        "div",
        { class: "l" },
        explain(keys[0], metricText(keys[0])),
        lower ? " · " + t("about.lower") : null,
      ),
      h("div", { class: "v" }, number(keys[0], withUnit(R.summary[keys[0]]))),
      own ? h("div", { class: "l" }, t("interval-95", { low: own[0], high: own[1] })) : null,
    ),
    h("div", { class: "verdict" }, verdict(context)),
    rest.length ? h("div", { class: "mini" }, rest.slice(0, 12).map(small)) : null,
    "score" in R.summary
      ? h("div", { class: "s" }, number("score", ""), t("yolo-point", { score: R.summary.score.toFixed(3) }))
      : null,
  );
}

const TIDE_KINDS = {
  Cls: "class",
  Loc: "localisation",
  Both: "both",
  Dupe: "duplicate",
  Bkg: "background",
  Miss: "missed",
};

// The sentences beside the number, about all classes at the score of the best F1.
function verdict(context) {
  const { R, counts } = context;
  const x = counts.counts(R.best, -1);
  const objects = t("objects", { n: x.gt });
  if (!x.gt) return [h("p", {}, t("verdict.no-objects"))];
  if (!x.tp) return [h("p", {}, t("verdict.finds-none", { objects }))];
  const found = { recall: withUnit(x.recall, 0), precision: withUnit(x.precision, 0), objects };
  const first = t("verdict.finds", { ...found, score: scoreText(R, R.best) });
  if (!x.fp && !x.fn) return [h("p", {}, first), h("p", {}, t("verdict.clean"))];
  return [h("p", {}, first), h("p", {}, worstKind(R, x), " ", worstPair(context), " ", weakestClass(R))];
}

// With TIDE the kind of error that costs most AP, else the one that is most frequent.
function worstKind(R, x) {
  const tide = R.analysis.tide;
  if (tide && !tide.reason) {
    const kinds = Object.entries(TIDE_KINDS).filter(([name]) => tide[name] && isNumber(tide[name].dap));
    const [name, kind] = kinds.sort(([a], [b]) => tide[b].dap - tide[a].dap)[0] || [];
    if (name && tide[name].dap > 0)
      return t("verdict.tide", { kind: t("errors-of." + kind), points: percent(tide[name].dap) });
  }
  const named = x.why.map((n, i) => [R.reasons[i], n]);
  const claimed = named.reduce(
    (sum, [kind, n]) => sum + (kind === "class" || kind === "localisation" ? n : 0),
    0,
  );
  named.push(["missed", Math.max(0, x.fn - claimed)]); // the others are false positives already
  const all = named.reduce((sum, [, n]) => sum + n, 0);
  const [kind, n] = named.sort((a, b) => b[1] - a[1])[0];
  return t("verdict.kind", { share: withUnit(n / all, 0), kind: t("errors-of." + kind) });
}

const WORTH_SAYING = 0.1;

function worstPair({ R, confusion }) {
  const n = R.rows.length;
  const lost = confusion(R.best).filter(([i, j]) => i < n && i !== j);
  const all = lost.reduce((sum, [, , v]) => sum + v, 0);
  const worst = lost.filter(([, j]) => j < n).sort((a, b) => b[2] - a[2])[0];
  if (!worst || worst[2] < 2 || worst[2] < WORTH_SAYING * all) return null;
  const [truth, detection] = [nameOf(R.rows[worst[0]].class, 30), nameOf(R.rows[worst[1]].class, 30)];
  return phrase("verdict.pair", { share: withUnit(worst[2] / all, 0), truth, detection });
}

const TELLING = 5; // objects of a class below which its AP says little

function weakestClass(R) {
  const all = R.rows.filter((row) => row.gt && isNumber(row.ap));
  if (all.length < 2) return null;
  const telling = all.filter((row) => row.gt >= TELLING);
  const rated = telling.length ? telling : all;
  const worst = rated.sort((a, b) => a.ap - b.ap || b.gt - a.gt)[0];
  const about = {
    name: nameOf(worst.class, 30),
    ap: withUnit(worst.ap),
    objects: t("objects", { n: worst.gt }),
  };
  return phrase("verdict.class", about);
}

// ---- tiles

function tiles({ X, R, st, counts }) {
  const main = {};
  const under = {};
  const tile = (key, kind, wide) => {
    main[key] = h("div", { class: "v" });
    under[key] = h("div", { class: "s" });
    const label = explain(t("tile." + key), hasText("metric." + key) ? t("metric." + key) : "");
    const text = h("div", { class: "l" }, kind ? mark(kind) : null, label);
    return h("div", { class: "card tile" + (wide ? " wide" : "") }, text, main[key], under[key]);
  };
  byId("main").append(
    h(
      "div",
      { class: "tiles", id: "tiles" },
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
    definition(R),
  );
  return () => {
    const x = counts.counts(st.level, st.category);
    const score = scoreText(R, st.level);
    for (const key of ["precision", "recall", "f1"]) main[key].textContent = withUnit(x[key]);
    for (const key of ["tp", "fp", "fn", "gt"]) main[key].textContent = count(x[key]);
    main.images.textContent = count(X.imageCount);
    main.det.textContent = count(x.tp + x.fp);
    under.precision.textContent = t("of-detections-right");
    under.recall.textContent = t("of-objects-found");
    under.f1.textContent = !counts.own()
      ? ""
      : st.level === R.best
        ? t("best-f1")
        : t("best-near", { score: scoreText(R, R.best) });
    under.gt.textContent =
      st.category < 0
        ? t("classes", { n: R.rows.filter((row) => row.gt).length })
        : short(R.rows[st.category].class, 20);
    const whose = st.category < 0 ? "with-errors" : "with-errors-any";
    under.images.textContent = t(whose, { n: counts.wrongImages(st.level) });
    under.det.textContent = counts.own()
      ? t("score", { score })
      : t("score-iou", { score, iou: shownIou(R, st) });
    under.tp.textContent = x.gt ? t("share-of-objects", { share: withUnit(x.tp / x.gt, 0) }) : "";
    under.fp.textContent = t("per-image", { n: (x.fp / Math.max(1, X.imageCount)).toFixed(2) });
    under.fn.textContent = x.gt ? t("share-of-objects", { share: withUnit(x.fn / x.gt, 0) }) : "";
  };
}
