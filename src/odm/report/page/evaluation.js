// The report of an evaluation. Everything but AP follows one score slider.

const HELP = {
  localisation: "right class, box too far off",
  class: "good box, other class",
  duplicate: "object already found",
  background: "nothing there",
  both: "other class and box off",
};
const WHY_MISSED = {
  assigned: "its detections went to other objects",
  class: "taken for another class",
  localisation: "box too far off",
  undetected: "nothing near it",
};
const FEW_CLASSES = 15;
const MANY_CLASSES = 20;
const IN_MATRIX = 13;
const WHOLE_MATRIX = 16;
const REDRAW_GALLERY = 60;

// The numbers of one result at any position of the slider, from sparse histograms.
function makeCounts(X, R) {
  const [classes, kinds, levels] = R.outcomes.shape;
  const reasons = kinds - 2;
  const steps = levels + 1;
  const sums = new Float64Array((classes + 1) * kinds * steps); // the last class is all of them
  const [at, n] = sparse(R.outcomes);
  at.forEach((place, i) => {
    const level = place % levels;
    const kind = Math.floor(place / levels) % kinds;
    const category = Math.floor(place / levels / kinds);
    sums[(category * kinds + kind) * steps + level] += n[i];
    sums[(classes * kinds + kind) * steps + level] += n[i];
  });
  const exact = sums.slice();
  for (let row = 0; row < (classes + 1) * kinds; row++) {
    for (let level = levels - 1; level >= 0; level--)
      sums[row * steps + level] += sums[row * steps + level + 1];
  }
  const objects = R.rows.map((row) => row.gt);
  objects.push(objects.reduce((a, b) => a + b, 0));
  const row = (category, kind) => ((category < 0 ? classes : category) * kinds + kind) * steps;

  function counts(level, category = -1) {
    const tp = sums[row(category, 0) + level];
    const gt = objects[category < 0 ? classes : category];
    const why = [];
    let fp = 0;
    for (let reason = 0; reason < reasons; reason++) {
      why.push(sums[row(category, 1 + reason) + level]);
      fp += why[reason];
    }
    const fn = gt - tp;
    const some = tp > 0 && gt > 0; // as in the JSON, what has no true positive has no operating point
    const [precision, recall, f1] = some
      ? [tp / (tp + fp), tp / gt, (2 * tp) / (2 * tp + fp + fn)]
      : [null, null, null];
    return { tp, fp, fn, gt, why, precision, recall, f1 };
  }
  const exactly = (level, category, kind) => exact[row(category, kind) + level];
  return { counts, exactly, levels, reasons };
}

function makeSizes(X, R) {
  const [, groups, steps] = R.objects.shape;
  const [at, n] = sparse(R.objects);
  return (level, category) => {
    const found = new Float64Array(groups);
    const all = new Float64Array(groups);
    at.forEach((place, i) => {
      const since = (place % steps) - 1;
      const group = Math.floor(place / steps) % groups;
      if (category >= 0 && Math.floor(place / steps / groups) !== category) return;
      all[group] += n[i];
      if (since >= level) found[group] += n[i];
    });
    return [found, all];
  };
}

// The confusion matrix at every level: lists of [row, column, number].
function makeConfusion(R) {
  const [levels, side] = R.confusion.shape;
  const [at, n] = sparse(R.confusion);
  const lists = Array.from({ length: levels }, () => []);
  at.forEach((place, i) => {
    const cell = place % (side * side);
    lists[Math.floor(place / side / side)].push([Math.floor(cell / side), cell % side, n[i]]);
  });
  return (level) => lists[level];
}

function levelText(R, level) {
  const v = R.levels[level];
  if (R.levels.length === 101 && R.levels[0] === 0 && R.levels[100] === 1) return v.toFixed(2);
  return String(Number(v.toPrecision(12)));
}

// ---- what the boxes of an image are at the score of now

function makeBoxes(X, R, st) {
  const { det, gt } = R;
  const of = { det: X.pictures.map(() => []), gt: X.pictures.map(() => []), pairs: X.pictures.map(() => []) };
  det.image.forEach((image, d) => of.det[image].push(d));
  gt.image.forEach((image, g) => of.gt[image].push(g));
  R.pairs[0].forEach((d, i) => of.pairs[det.image[d]].push([d, R.pairs[1][i]]));
  const last = X.kinds.length - 1;
  const className = (category) => R.rows[category].class;
  const corner = (side, i) => side.box.map((column) => column[i]);

  class Detection {
    constructor(d) {
      const kind = det.kind[d];
      this.d = d;
      this.key = "d" + d;
      this.reason = kind > 0 && kind < last ? kind - 1 : -1;
      this.kind = kind === 0 ? "TP" : kind === last ? "IG" : "FP";
      this.category = det.class[d];
      this.box = corner(det, d);
      this.score = det.score[d];
    }
    get name() {
      return className(this.category);
    }
    get label() {
      return short(this.name, 22);
    }
    get why() {
      const iou = det.iou[this.d] ? " · IoU " + det.iou[this.d].toFixed(2) : "";
      const row = ` · row ${det.row[this.d]}`;
      if (this.kind === "TP") return "found" + iou + row;
      if (this.kind === "IG") return "ignored" + iou + row;
      const reason = X.kinds[this.reason + 1];
      return "false · " + reason + (reason === "class" ? onto(this.d) : iou) + row;
    }
  }

  class Truth {
    constructor(g) {
      const by = gt.by[g];
      this.g = g;
      this.key = "g" + g;
      this.reason = -1;
      this.kind = !gt.counts[g] ? "IG" : by >= 0 && det.level[by] >= st.level ? "GT" : "FN";
      this.category = gt.class[g];
      this.box = corner(gt, g);
      this.score = null;
    }
    get name() {
      return className(this.category);
    }
    get label() {
      return (this.kind === "FN" ? "missed " : "") + short(this.name, 22);
    }
    get why() {
      const row = ` · row ${gt.row[this.g]}`;
      if (this.kind === "IG") return (R.perImage ? "counts once per image" : "ignored") + row;
      if (this.kind === "GT") return "truth" + row;
      const by = gt.by[this.g];
      if (by >= 0) return `missed · found only at ${det.score[by].toFixed(2)}${row}`;
      const miss = X.misses[gt.miss[this.g]];
      const iou = miss === "localisation" ? gt.same[this.g] : miss === "class" ? gt.other[this.g] : 0;
      return `missed · ${WHY_MISSED[miss] || "never found"}${iou ? " · IoU " + iou.toFixed(2) : ""}${row}`;
    }
  }

  function onto(d) {
    const [a0, b0, a1, b1] = corner(det, d);
    let best = ["", 0];
    for (const g of of.gt[det.image[d]]) {
      if (gt.class[g] === det.class[d] || !gt.paired[g]) continue;
      const [p0, q0, p1, q1] = corner(gt, g);
      const meet =
        Math.max(0, Math.min(a1, p1) - Math.max(a0, p0)) * Math.max(0, Math.min(b1, q1) - Math.max(b0, q0));
      const iou = meet / ((a1 - a0) * (b1 - b0) + (p1 - p0) * (q1 - q0) - meet);
      if (iou > best[1]) best = [short(className(gt.class[g]), 22), iou];
    }
    return best[0] ? ` · on ${best[0]} · IoU ${best[1].toFixed(2)}` : "";
  }

  function boxes(image) {
    const list = [];
    for (const d of of.det[image]) if (det.level[d] >= st.level) list.push(new Detection(d));
    for (const g of of.gt[image]) list.push(new Truth(g));
    return list;
  }

  // The boxes of an image that one cell of the confusion matrix counts.
  function inCell(image, cell) {
    const [row, column] = cell.split(",").map(Number);
    const none = R.rows.length;
    const taken = new Set();
    const found = new Set();
    for (const [d, g] of of.pairs[image]) {
      if (det.level[d] < st.level || taken.has("d" + d) || taken.has("g" + g)) continue;
      taken.add("d" + d).add("g" + g);
      if (gt.class[g] === row && det.class[d] === column) found.add("d" + d).add("g" + g);
    }
    if (row === none) {
      for (const d of of.det[image]) {
        const alone = det.level[d] >= st.level && !taken.has("d" + d) && !det.spared[d];
        if (alone && det.class[d] === column) found.add("d" + d);
      }
    }
    if (column === none) {
      for (const g of of.gt[image]) {
        if (gt.paired[g] && !taken.has("g" + g) && gt.class[g] === row) found.add("g" + g);
      }
    }
    return found;
  }
  return { boxes, inCell };
}

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
  const title = "Object detection report";
  const chips = h("div", { id: "definition" });
  head(X, title, chips);
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
  const part = X.pictures.length < X.imageCount;
  return `Counts are of all ${plural(X.imageCount, "image")}; ${
    part
      ? `${count(X.pictures.length)} of them are shown, those with the most errors and some of every kind of error`
      : "all are shown"
  }. Rows count the boxes of each file from 0, as in detections.csv.`;
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
  const dropped = Object.entries(R.dropped).map(([what, n]) =>
    h("li", {}, `${count(n)} detections dropped: ${what}`),
  );
  return [
    X.results.length > 1 ? h("div", { class: "tabs", role: "group", "aria-label": "Protocol" }, tabs) : "",
    h(
      "ul",
      { class: "def", "aria-label": "How the numbers are defined" },
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
  const nav = links([
    ["top", "Summary"],
    ["classes", "Classes"],
    ["curves", "Curves"],
    ["errors", "Errors"],
    ["images", "Images"],
  ]);
  nav.append(clear);
  byId("barin").append(
    h("div", { class: "slide" }, h("label", { for: "score" }, "Score ≥"), range, output),
    live,
    nav,
  );

  return () => {
    const x = counts.counts(st.level, st.category);
    const text = levelText(R, st.level);
    const category = st.category < 0 ? null : clean(R.rows[st.category].class);
    output.textContent = text;
    range.value = st.level;
    range.setAttribute(
      "aria-valuetext",
      `score at least ${text}: precision ${percent(x.precision)}, recall ${percent(x.recall)} percent`,
    );
    const number = (key, label, value, shownAs, title) =>
      h(
        "span",
        { title },
        label,
        " ",
        h("b", { "data-key": key, "data-score": text, "data-value": value, "data-class": category }, shownAs),
      );
    const letter = (t) => h("span", { class: "k" }, t);
    live.replaceChildren(
      number("precision", letter("P"), x.precision, percent(x.precision), "precision, percent"),
      number("recall", letter("R"), x.recall, percent(x.recall), "recall, percent"),
      number("f1", letter("F1"), x.f1, percent(x.f1), "F1, percent"),
      number("tp", mark("TP"), x.tp, count(x.tp), "found (true positives)"),
      number("fp", mark("FP"), x.fp, count(x.fp), "false positives"),
      number("fn", mark("FN"), x.fn, count(x.fn), "missed (false negatives)"),
    );
    const filters = [
      category === null ? "" : short(category, 24),
      kindName(X, st.kind),
      cellName(R, st.cell),
    ].filter(Boolean);
    clear.hidden = !filters.length;
    clear.textContent = filters.join(" · ") + "  ✕";
    clear.setAttribute("aria-label", "Clear the filters: " + filters.join(", "));
    say(
      `Score at least ${text}: precision ${percent(x.precision)} percent, recall ${percent(x.recall)} percent, ${x.fp} false positives, ${x.fn} missed`,
    );
  };
}

function kindName(X, kind) {
  if (!kind) return "";
  if (/^FP\d/.test(kind)) return "False positives: " + X.kinds[Number(kind[2]) + 1];
  return { FP: "False positives", FN: "Missed", TP: "Found" }[kind];
}

function cellName(R, cell) {
  if (!cell) return "";
  const [row, column] = cell.split(",").map(Number);
  const name = (i, none) => (i < R.rows.length ? short(R.rows[i].class, 20) : none);
  return `${name(row, "nothing there")} → ${name(column, "missed")}`;
}

// ---- tiles

function tiles({ X, R, st, counts }) {
  const keys = Object.keys(R.summary);
  const about = { AP: "mean over IoU and classes", mAP: "mean over classes", CorLoc: "mean over classes" }[
    keys[0]
  ];
  const lower = keys[0].startsWith("top") ? "error, lower is better" : about;
  const value = (key) => h("b", { "data-key": key, "data-value": R.summary[key] }, withUnit(R.summary[key]));
  const rest = keys.slice(1).filter((key) => isNumber(R.summary[key]));
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
  );
  const main = {};
  const under = {};
  const tile = (key, label, kind, wide) => {
    main[key] = h("div", { class: "v" });
    under[key] = h("div", { class: "s" });
    const text = h("div", { class: "l" }, kind ? mark(kind) : null, label);
    return h("div", { class: "card tile" + (wide ? " wide" : "") }, text, main[key], under[key]);
  };
  byId("main").append(
    h(
      "div",
      { class: "tiles" },
      hero,
      tile("precision", "Precision"),
      tile("recall", "Recall"),
      tile("f1", "F1"),
      tile("gt", "Objects", "GT"),
      tile("images", "Images"),
      tile("det", "Detections"),
      tile("tp", "Found (TP)", "TP", true),
      tile("fp", "False positives (FP)", "FP", true),
      tile("fn", "Missed (FN)", "FN", true),
    ),
  );
  return () => {
    const x = counts.counts(st.level, st.category);
    const score = levelText(R, st.level);
    for (const key of ["precision", "recall", "f1"]) main[key].textContent = withUnit(x[key]);
    for (const key of ["tp", "fp", "fn", "gt"]) main[key].textContent = count(x[key]);
    main.images.textContent = count(X.imageCount);
    main.det.textContent = count(x.tp + x.fp);
    under.precision.textContent = "of detections are right";
    under.recall.textContent = "of objects are found";
    under.f1.textContent =
      st.level === R.best ? "best F1 of all classes" : "best near score " + levelText(R, R.best);
    under.gt.textContent =
      st.category < 0
        ? plural(R.rows.filter((row) => row.gt).length, "class", "classes")
        : short(R.rows[st.category].class, 20);
    under.images.textContent = `${count(R.wrongImages[st.level])} with errors`;
    under.det.textContent = "score ≥ " + score;
    under.tp.textContent = x.gt ? withUnit(x.tp / x.gt, 0) + " of objects" : "";
    under.fp.textContent = `${(x.fp / Math.max(1, X.imageCount)).toFixed(2)} per image`;
    under.fn.textContent = x.gt ? withUnit(x.fn / x.gt, 0) + " of objects" : "";
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
    { key: "name", label: "Class", text: true, value: (row) => row.name },
    { ...number("gt"), label: "Objects" },
    {
      key: "ap",
      label: "AP",
      value: apOf,
      cell: (row) => [percent(apOf(row)), shareBar(apOf(row))],
      data: (row) => ({ "data-key": row.i < 0 ? null : "ap", "data-value": apOf(row) }),
    },
    { ...number("precision"), label: "Precision" },
    { ...number("recall"), label: "Recall" },
    { ...number("f1"), label: "F1" },
    { ...number("tp"), label: "TP" },
    { ...number("fp"), label: "FP" },
    { ...number("fn"), label: "FN" },
    { key: "mix", label: "Found · false · missed", fixed: true, class: "l", cell: (row) => mix(row) },
  ].filter((column) => hasAp || column.key !== "ap");
  const table = sortedTable({
    caption: "Results per class at the chosen score",
    columns,
    order: st.order,
    onSort: draw,
  });
  const all = h("button", {
    class: "btn",
    on: {
      click: () => {
        st.all = !st.all;
        draw();
      },
    },
  });
  section(
    "classes",
    "Classes",
    "Choose a name to see only that class, everywhere on this page.",
    h("div", { class: "card scroll" }, table.element),
    h("div", { class: "more" }, all),
  );

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

  function draw() {
    const rows = R.rows.map((row, i) => ({ i, name: row.class, ...counts.counts(st.level, i) }));
    rows.sort(table.compare);
    const many = rows.length > MANY_CLASSES;
    const cut = many && !st.all ? rows.filter((row, n) => n < FEW_CLASSES || row.i === st.category) : rows;
    const most = Math.max(1, ...rows.map((row) => row.tp + row.fp + row.fn));
    for (const row of rows) row.scale = many ? row.tp + row.fp + row.fn : most;
    all.hidden = !many;
    all.textContent = st.all ? `Show ${FEW_CLASSES} classes` : `Show all ${count(rows.length)} classes`;
    const focused = document.activeElement?.closest?.("tr[data-class]")?.dataset.class;
    table.body.replaceChildren(
      ...cut.map((row) => {
        const on = row.i === st.category ? "on" : null;
        return h("tr", { role: "row", class: on, "data-class": row.name }, nameCell(row), table.cells(row));
      }),
    );
    const sum = { i: -1, ...counts.counts(st.level) };
    table.footer.replaceChildren(
      h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, "All"), table.cells(sum)),
    );
    table.showOrder();
    if (focused !== undefined) {
      const row = [...table.body.children].find((tr) => tr.dataset.class === focused);
      if (row) row.querySelector("button").focus({ preventScroll: true });
    }
  }
  return draw;
}

function mix(row) {
  if (!row.scale) return null;
  const width = 150 / row.scale;
  const label = `${row.tp} found, ${row.fp} false, ${row.fn} missed`;
  const part = (key) =>
    row[key] ? h("i", { class: "c-" + key, css: { width: Math.max(1, row[key] * width) + "px" } }) : null;
  return h("span", { class: "sbar", role: "img", "aria-label": label }, ["tp", "fp", "fn"].map(part));
}

// ---- curves

function curves({ X, R, st, redraw, counts }) {
  const holder = h("div", { class: "grid3" });
  section("curves", "Curves", "Drag on a plot over the score to set it.", holder);
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
    const name = st.category >= 0 ? short(R.rows[st.category].class, 24) : "all classes";
    const svg = plotFrame(`Precision over recall of ${name}`, QUARTERS);
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
      h("span", {}, "grey: each class · dot: this score"),
    );
    return [plotCard("Precision over recall", key, svg), dot];
  }

  function scorePlot(all) {
    const svg = drag(plotFrame("Precision, recall and F1 over the score", ticks));
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
    const key = legend(["var(--tp)", "precision"], ["var(--fn)", "recall"], ["var(--ink)", "F1"]);
    return [plotCard("Precision, recall, F1 over score", key, svg), line];
  }

  function histogram() {
    const svg = drag(plotFrame("How many detections have which score, true and false", ticks, false));
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
      plotCard("Detections by score", legend(["var(--tp)", "true"], ["var(--fp)", "false"]), svg),
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

// ---- what went wrong

function errors(context) {
  const matrix = h("div", { class: "card pad matrix" });
  const kinds = h("div", { class: "card pad" });
  const sizes = h("div", { class: "card plot" });
  section(
    "errors",
    "What went wrong",
    "Choose a cell or a row to see its images.",
    h("div", { class: "grid2" }, matrix, h("div", { class: "stack" }, kinds, sizes)),
  );
  const draw = [
    () => confusion(context, matrix),
    () => errorKinds(context, kinds),
    () => objectSizes(context, sizes),
  ];
  return () => draw.forEach((part) => part());
}

const toImages = () => byId("images").scrollIntoView();

function chooseCell({ st, redraw }, id) {
  st.cell = st.cell === id ? null : id;
  st.kind = "";
  redraw();
  if (st.cell) toImages();
}

// Of many classes the matrix shows those that are confused most; the rest is one row and one column.
function matrixAxes({ R, st }, entries) {
  const n = R.rows.length;
  const kept = new Set(Array.from({ length: n + 1 }, (_, i) => i));
  if (n > WHOLE_MATRIX) {
    const weight = new Float64Array(n);
    for (const [i, j, v] of entries) {
      if (i === j || i >= n || j >= n) continue;
      weight[i] += v;
      weight[j] += v;
    }
    if (st.category >= 0) weight[st.category] = Infinity;
    const order = Array.from(weight, (_, i) => i).sort(
      (a, b) => (weight[b] === weight[a] ? R.rows[b].gt - R.rows[a].gt : weight[b] - weight[a]) || a - b,
    );
    kept.clear();
    for (const i of order.slice(0, IN_MATRIX)) kept.add(i);
    kept.add(n);
  }
  const axis = Array.from(kept)
    .filter((i) => i < n)
    .sort((a, b) => a - b);
  const others = n > WHOLE_MATRIX ? [n + 1] : [];
  return { kept, axis: [...axis, ...others, n] };
}

function confusion(context, holder) {
  const { R, st, confusion: at } = context;
  const n = R.rows.length;
  const entries = at(st.level);
  const { kept, axis } = matrixAxes(context, entries);
  const fold = (i) => (kept.has(i) ? i : n + 1);
  const table = new Map();
  const sums = new Map();
  for (const [i, j, v] of entries) {
    const key = fold(i) + "," + fold(j);
    table.set(key, (table.get(key) || 0) + v);
    sums.set(fold(i), (sums.get(fold(i)) || 0) + v);
  }
  const label = (i, isRow) => {
    if (i === n + 1) return plural(n + 1 - kept.size, "other");
    return i < n ? short(R.rows[i].class, 22) : isRow ? "nothing there" : "missed";
  };
  const focused = document.activeElement?.dataset?.cell;
  const cell = (i, j) => {
    const v = table.get(i + "," + j) || 0;
    if (i === n && j === n) return h("td");
    if (!v) return h("td", {}, h("span", {}, h("i", { class: "sr" }, "0")));
    if (i > n || j > n) return h("td", {}, h("span", { class: "ot", title: count(v) }, compact(v)));
    const id = i + "," + j;
    const part = v / sums.get(i);
    const [strength, white] = cellStrength(part, i === j);
    const style = {
      background: `rgba(${i === j ? "var(--heat)" : "var(--bad)"},${strength})`,
      color: white ? "#fff" : "var(--ink)",
    };
    const title = `${label(i, true)} → ${label(j)}: ${count(v)} (${percent(part)} %)`;
    const attributes = {
      "data-cell": id,
      "data-value": v,
      "aria-pressed": String(st.cell === id),
      title,
      css: style,
    };
    return h(
      "td",
      {},
      h("button", { ...attributes, on: { click: () => chooseCell(context, id) } }, compact(v)),
    );
  };
  const edge = (i) => (i === n ? "edge" : null);
  const rows = axis.map((i) =>
    h(
      "tr",
      {},
      h("th", { scope: "row", class: edge(i), title: label(i, true) }, h("bdi", {}, label(i, true))),
      axis.map((j) => cell(i, j)),
    ),
  );
  const columns = axis.map((j) =>
    h("th", { scope: "col", class: edge(j), title: label(j) }, h("span", {}, label(j))),
  );
  holder.replaceChildren(
    h("h3", {}, "Which class was taken for which"),
    h("p", { class: "cap" }, "Rows are objects, columns are detections."),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": "Confusion matrix" },
      h(
        "table",
        { class: "conf", css: { "--n": axis.length } },
        h("caption", { class: "sr" }, "Confusion matrix"),
        h("thead", {}, h("tr", {}, h("td"), columns)),
        h("tbody", {}, rows),
      ),
    ),
    ...mostConfused(context, entries),
    h(
      "p",
      { class: "cap foot" },
      `Detections of score ≥ ${levelText(R, st.level)}; pairs of IoU ≥ 0.5, those of one class first.`,
    ),
  );
  if (focused) holder.querySelector(`[data-cell="${focused}"]`)?.focus({ preventScroll: true });
}

// How strong the color of a cell is, and whether its text is white: never in between, where neither is legible.
function cellStrength(part, right) {
  const wish = 0.1 + 0.85 * Math.sqrt(part);
  if (wish <= (right ? 0.45 : 0.4)) return [wish, false];
  return [Math.max(right ? 0.9 : 0.88, wish), true];
}

function mostConfused(context, entries) {
  const { R, st } = context;
  const n = R.rows.length;
  const worst = entries
    .filter(([i, j]) => i !== j && i < n && j < n)
    .sort((a, b) => b[2] - a[2])
    .slice(0, 5);
  if (!worst.length) return [];
  const chip = ([i, j, v]) => {
    const id = i + "," + j;
    const attributes = {
      class: "chip",
      "aria-pressed": String(st.cell === id),
      on: { click: () => chooseCell(context, id) },
    };
    return h(
      "button",
      attributes,
      nameOf(R.rows[i].class, 20),
      " → ",
      nameOf(R.rows[j].class, 20),
      " ",
      h("b", {}, count(v)),
    );
  };
  return [h("div", { class: "pairs" }, h("h3", {}, "Most often confused"), worst.map(chip))];
}

function errorKinds({ X, R, st, redraw, counts }, holder) {
  const x = counts.counts(st.level, st.category);
  const rows = x.why.map((v, i) => ({
    id: "FP" + i,
    name: X.kinds[i + 1],
    help: HELP[X.kinds[i + 1]],
    v,
    color: "fp",
  }));
  rows.push({ id: "FN", name: "missed", help: "no detection matches it", v: x.fn, color: "fn" });
  rows.sort((a, b) => b.v - a.v);
  const most = Math.max(1, ...rows.map((row) => row.v));
  const sum = rows.reduce((total, row) => total + row.v, 0) || 1;
  const focused = document.activeElement?.dataset?.kind;
  const line = (row) => {
    const choose = () => {
      st.kind = st.kind === row.id ? "" : row.id;
      st.cell = null;
      redraw();
      if (st.kind) toImages();
    };
    const key = row.id === "FN" ? "fn" : row.name;
    return h(
      "button",
      {
        class: "erow",
        "data-kind": row.id,
        "aria-pressed": String(st.kind === row.id),
        on: { click: choose },
      },
      h("span", {}, mark(row.color), " ", row.name, h("small", { class: "long" }, row.help)),
      h(
        "span",
        { class: "t" },
        h("i", { class: "c-" + row.color, css: { width: (100 * row.v) / most + "%" } }),
      ),
      h(
        "span",
        { class: "n" },
        h(
          "span",
          { "data-reason": key, "data-value": row.v, "data-score": levelText(R, st.level) },
          count(row.v),
        ),
        " ",
        h("small", {}, percent(row.v / sum, 0) + " %"),
      ),
    );
  };
  holder.replaceChildren(
    h("h3", {}, "Errors by kind"),
    ...rows.map(line),
    h(
      "p",
      { class: "cap foot" },
      "An object found as another class, or with a box too far off, counts twice: as false and as missed.",
    ),
  );
  if (focused) holder.querySelector(`[data-kind="${focused}"]`)?.focus({ preventScroll: true });
}

function objectSizes({ X, R, st, sizes }, holder) {
  if (R.perImage) {
    holder.replaceChildren(
      h("h3", {}, "Objects by size"),
      h(
        "p",
        { class: "cap" },
        "Under this protocol a class counts once per image, so sizes of objects mean nothing here.",
      ),
    );
    return;
  }
  const [found, all] = sizes(st.level, st.category);
  const name = (i) =>
    i === 0
      ? `< ${X.sides[0]}`
      : i < X.sides.length
        ? `${X.sides[i - 1]}–${X.sides[i]}`
        : `${X.sides[i - 1]}+`;
  const bars = Array.from(all, (n, i) => ({
    label: name(i),
    parts: [
      [found[i], "var(--tp)"],
      [n - found[i], "var(--fn)"],
    ],
    text: n ? percent(found[i] / n, 0) + " %" : "",
  }));
  const label =
    "Objects by size, found and missed: " +
    bars.map((bar, i) => `${bar.label} pixels, ${found[i]} of ${all[i]}`).join("; ");
  holder.replaceChildren(
    h("h3", {}, "Objects by size, and the share found"),
    legend(["var(--tp)", "found"], ["var(--fn)", "missed"]),
    columnPlot(label, bars),
    h("p", { class: "cap" }, "side of a square of the same area, in pixels"),
  );
}

// ---- images

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
    "Class",
    [["-1", "All classes"], ...R.rows.map((row, i) => [i, short(row.class, 40)])],
    (v) => change({ category: Number(v) }),
  );
  const kindList = ["", "FP", ...X.kinds.slice(1, -1).map((_, i) => "FP" + i), "FN", "TP"];
  const kinds = select(
    "Kind of error",
    kindList.map((kind) => [kind, kindName(X, kind) || "All errors"]),
    (v) => change({ kind: v }),
  );
  const cell = h("button", { class: "chip", "aria-pressed": "true", on: { click: () => change({}) } });
  return makeGallery(X, sources, {
    title: "Images, worst first",
    hint: "Choose an image to see its boxes and why each is wrong.",
    empty: "No image has that at this score. Lower the score, or clear the filters.",
    panes: (image) => [boxes(image)],
    matches,
    narrowed,
    include: (image, list) =>
      st.cell ? cellOf(image).size > 0 : !narrowed() || list.some((box) => matches(box, image)),
    rank,
    orders: [
      ["wrong", "Most errors first"],
      ["sure", "Surest mistake first"],
      ["missed", "Most missed first"],
      ["name", "By name"],
    ],
    filters: [classes, kinds, cell],
    toggles: ["FP", "FN", "TP", "GT"],
    caption: ["FP", "FN", "TP"],
    keys: { FP: "fp", FN: "fn", TP: "tp" },
    shown,
    labelled: isError,
    status: () => "score ≥ " + levelText(R, st.level),
    drawn: () => {
      classes.value = String(st.category);
      kinds.value = st.kind;
      cell.hidden = !st.cell;
      cell.textContent = cellName(R, st.cell) + "  ✕";
    },
  });
}
