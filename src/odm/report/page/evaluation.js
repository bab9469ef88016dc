// The report of an evaluation. Everything but AP follows one score slider.

// ---- the page

function drawPage(X, sources) {
  const st = {
    result: 0,
    level: null,
    iou: null,
    category: -1,
    kind: "",
    cell: null,
    tag: "",
    all: false,
    order: { key: "gt", direction: -1 },
  };
  readAddress(X, st);
  const opening = h("div", { id: "opening" });
  head(X, t("page.evaluation"), opening);
  foot(X, footText(X));
  const shown = { GT: false };

  function show() {
    byId("main").replaceChildren();
    byId("barin").replaceChildren();
    const R = X.results[st.result];
    if (st.level === null || st.level >= R.levels.length) st.level = R.best;
    if (!R.ious) st.iou = null;
    else if (!R.ious.values[st.iou]) st.iou = R.ious.own;
    drawResult(X, R, sources, st, shown, opening, show);
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
    if (key === "i" && R.ious?.values.includes(Number(value))) st.iou = R.ious.values.indexOf(Number(value));
    if (key === "c" && R.rows[value]) st.category = Number(value);
    if (key === "t" && X.tags[decodeURIComponent(value)]) st.tag = decodeURIComponent(value);
    if (key === "k" && /^(FP[0-9]?|FN|TP)$/.test(value)) st.kind = value;
  }
}

function keepAddress(X, R, st) {
  const parts = ["s=" + levelText(R, st.level)];
  if (R.ious && st.iou !== R.ious.own) parts.push("i=" + R.ious.values[st.iou]);
  if (st.category >= 0) parts.push("c=" + st.category);
  if (st.kind) parts.push("k=" + st.kind);
  if (st.tag) parts.push("t=" + encodeURIComponent(st.tag));
  if (st.result) parts.push("r=" + st.result);
  keepInAddress(parts.join("&"));
}

function drawResult(X, R, sources, st, shown, opening, show) {
  const tools = { counts: makeCounts(X, R, st), sizes: makeSizes(X, R, st), confusion: makeConfusion(R) };
  if (st.category >= R.rows.length) st.category = -1;
  let queued = false;
  const redraw = () => {
    if (queued) return;
    queued = true;
    requestAnimationFrame(() => {
      queued = false;
      now();
    });
  };
  const ofProtocol = makeCounts(X, R, { iou: R.ious ? R.ious.own : null });
  const context = { X, R, st, redraw, ...tools, shown, sources, openImage: (name) => openImage(name) };
  opening.replaceChildren(
    ...[protocolTabs(X, st, show), hero({ ...context, counts: ofProtocol })].filter(Boolean),
  );
  const parts = [bar, tiles, classTable, curves, analyses, errors, review]
    .map((make) => make(context))
    .filter(Boolean);
  const gallery = images(context);
  function openImage(name) {
    Object.assign(st, { category: -1, kind: "", cell: null, tag: "" });
    now();
    gallery.openImage(name);
  }
  hideWhileSeen(byId("numbers"), byId("tiles"));
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

const shownIou = (R, st) => R.ious.values[st.iou].toFixed(2);

// The threshold from which on a box is right; nothing under protocols that have no single one.
function iouSlider(R, st, redraw) {
  if (!R.ious) return null;
  const output = h("output", { for: "iou" }, shownIou(R, st));
  const move = (event) => {
    st.iou = Number(event.target.value);
    output.textContent = shownIou(R, st);
    event.target.setAttribute("aria-valuetext", t("spoken-iou", { iou: shownIou(R, st) }));
    redraw();
  };
  const attributes = { type: "range", id: "iou", min: 0, max: R.ious.values.length - 1, step: 1 };
  const label = h("label", { for: "iou", "data-tip": t("iou-at-least.about") }, t("iou-at-least"));
  const range = h("input", {
    ...attributes,
    value: st.iou,
    "data-tip": t("iou-at-least.about"),
    on: { input: move },
  });
  range.value = st.iou;
  range.setAttribute("aria-valuetext", t("spoken-iou", { iou: shownIou(R, st) }));
  return h("div", { class: "slide iou" }, label, range, output);
}

// The bar repeats the numbers of the tiles only while these are out of sight.
function hideWhileSeen(element, other) {
  new IntersectionObserver(([entry]) => {
    element.classList.toggle("seen", entry.isIntersecting);
  }).observe(other);
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
        Object.assign(st, { category: -1, kind: "", cell: null, tag: "" });
        redraw();
        range.focus();
      },
    },
  });
  const sections = ["top", "classes", "curves", "analyses", "errors", "review", "images"];
  const isThere = { analyses: hasAnalyses(R), review: R.review.count > 0 };
  const there = sections.filter((id) => isThere[id] !== false);
  const nav = links(there.map((id) => [id, t("section." + id)]));
  nav.append(clear);
  byId("barin").append(
    h("div", { class: "slide" }, h("label", { for: "score" }, t("score-at-least")), range, output),
    iouSlider(R, st, redraw),
    live,
    nav,
  );

  return () => {
    const x = counts.counts(st.level, st.category);
    const text = levelText(R, st.level);
    const category = st.category < 0 ? null : clean(R.rows[st.category].class);
    output.textContent = scoreText(R, st.level);
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
      st.tag && tagName(st.tag),
    ].filter(Boolean);
    clear.hidden = !filters.length;
    clear.textContent = filters.join(" · ") + "  ✕";
    clear.setAttribute("aria-label", t("clear-filters", { filters: filters.join(", ") }));
    say(t("spoken-counts", spoken));
  };
}

// A tag is chosen as "name=value".
const tagName = (tag) => short(tag.replace("=", ": "), 40);

function kindName(X, kind) {
  if (!kind) return "";
  if (/^FP\d/.test(kind)) return t("kind.FP-of", { kind: t("kind." + X.kinds[Number(kind[2]) + 1]) });
  return t("kind." + kind);
}

function cellName(R, cell) {
  if (!cell) return "";
  const [row, column] = cell.split(",").map(Number);
  const name = (i) => (i < R.rows.length ? short(R.rows[i].class, 20) : "");
  const key = row >= R.rows.length ? "confused.extra" : column >= R.rows.length ? "confused.missed" : "confused";
  return t(key, { truth: name(row), detection: name(column) });
}
