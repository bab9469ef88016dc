// What went wrong: confusion, kinds of errors, sizes of objects, and the images.

// ---- what went wrong

function errors(context) {
  const matrix = h("div", { class: "card pad matrix", on: { keydown: moveInMatrix } });
  const kinds = h("div", { class: "card pad" });
  const sizes = h("div", { class: "card plot" });
  section(
    "errors",
    t("errors.title"),
    t("errors.hint"),
    h("div", { class: "grid2" }, matrix, h("div", { class: "stack" }, kinds, sizes)),
  );
  const { st } = context;
  let drawnFor = "";
  const matrixNow = () => {
    const wanted = [st.level, st.category, st.cell].join();
    if (drawnFor === wanted) return; // it is of the protocol's IoU, whatever the slider says
    drawnFor = wanted;
    confusion(context, matrix);
  };
  const draw = [
    matrixNow,
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

const FAR = 1e-9; // what a confusion counts that is not of the chosen class

// Of many classes the matrix shows those that are confused most, with the chosen class if there is one; the rest is
// one row and one column.
function matrixAxes({ R, st }, entries) {
  const n = R.rows.length;
  const kept = new Set(Array.from({ length: n + 1 }, (_, i) => i));
  if (n > WHOLE_MATRIX) {
    const weight = new Float64Array(n);
    for (const [i, j, v] of entries) {
      if (i === j || i >= n || j >= n) continue;
      const near = st.category < 0 || i === st.category || j === st.category;
      weight[i] += near ? v : v * FAR;
      weight[j] += near ? v : v * FAR;
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
    if (i === n + 1) return t("others", { n: n + 1 - kept.size });
    return i < n ? short(R.rows[i].class, 22) : t(isRow ? "nothing-there" : "missed");
  };
  const focused = document.activeElement?.dataset?.cell;
  const cell = (i, j) => {
    const v = table.get(i + "," + j) || 0;
    if (i === n && j === n) return h("td");
    if (!v) return h("td", { class: "zero", "aria-label": "0" });
    if (i > n || j > n) return h("td", {}, h("span", { class: "ot", title: count(v) }, compact(v)));
    const id = i + "," + j;
    const part = v / sums.get(i);
    const [strength, white] = cellStrength(part, i === j);
    const style = {
      background: `rgba(${i === j ? "var(--heat)" : "var(--bad)"},${strength})`,
      color: white ? "#fff" : "var(--ink)",
    };
    const about = { truth: label(i, true), detection: label(j), n: v, share: percent(part) };
    const attributes = {
      "data-cell": id,
      "data-value": v,
      "aria-pressed": String(st.cell === id),
      title: t("matrix.cell", about),
      css: style,
    };
    return h(
      "td",
      {},
      h("button", { ...attributes, on: { click: () => chooseCell(context, id) } }, compact(v)),
    );
  };
  const edge = (i) => (i === n ? "edge" : i === st.category ? "on" : null);
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
    h("h3", {}, t("matrix.title")),
    h("p", { class: "cap" }, t("matrix.hint")),
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": t("matrix") },
      h(
        "table",
        { class: "conf", css: { "--n": axis.length } },
        h("caption", { class: "sr" }, t("matrix")),
        h("thead", {}, h("tr", {}, h("td"), columns)),
        h("tbody", {}, rows),
      ),
    ),
    ...mostConfused(context, entries),
    h("p", { class: "cap foot" }, t("matrix.foot", { score: scoreText(R, st.level) })),
  );
  const again = focused && holder.querySelector(`[data-cell="${focused}"]`);
  const cells = [...holder.querySelectorAll("[data-cell]")];
  reachable(cells, again || cells.find((one) => one.getAttribute("aria-pressed") === "true") || cells[0]);
  if (again) again.focus({ preventScroll: true });
}

// The cells are one stop of the Tab key; arrows go from cell to cell, left and right on to the next row.
function moveInMatrix(event) {
  const cells = [...event.currentTarget.querySelectorAll("[data-cell]")];
  const at = cells.indexOf(event.target);
  if (at < 0) return;
  const place = (cell) => [cell.closest("tr").rowIndex, cell.closest("td").cellIndex];
  const [row, column] = place(cells[at]);
  const near = (down) =>
    cells
      .filter((cell) => down * (place(cell)[0] - row) > 0)
      .sort((a, b) => {
        const [[i, j], [k, l]] = [place(a), place(b)];
        return down * (i - k) || Math.abs(j - column) - Math.abs(l - column);
      })[0];
  const next = {
    ArrowLeft: () => cells[at - 1],
    ArrowRight: () => cells[at + 1],
    ArrowUp: () => near(-1),
    ArrowDown: () => near(1),
    Home: () => cells[0],
    End: () => cells[cells.length - 1],
  }[event.key]?.();
  if (!next) return;
  event.preventDefault();
  reachable(cells, next);
  next.focus();
}

function reachable(cells, one) {
  for (const cell of cells) cell.tabIndex = cell === one ? 0 : -1;
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
  const own = st.category;
  const worst = entries
    .filter(([i, j]) => i !== j && i < n && j < n && (own < 0 || i === own || j === own))
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
      ...phrase("confused", { truth: nameOf(R.rows[i].class, 20), detection: nameOf(R.rows[j].class, 20) }),
      " ",
      h("b", {}, count(v)),
    );
  };
  const title =
    own < 0 ? t("most-confused") : phrase("most-confused-with", { name: nameOf(R.rows[own].class, 30) });
  return [h("div", { class: "pairs" }, h("h3", {}, title), worst.map(chip))];
}

function errorKinds({ X, R, st, redraw, counts }, holder) {
  const x = counts.counts(st.level, st.category);
  const rows = x.why.map((v, i) => ({
    id: "FP" + i,
    key: X.kinds[i + 1],
    v,
    color: "fp",
  }));
  rows.push({ id: "FN", key: "missed", v: x.fn, color: "fn" });
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
    return h(
      "button",
      {
        class: "erow",
        "data-kind": row.id,
        "aria-pressed": String(st.kind === row.id),
        on: { click: choose },
      },
      h(
        "span",
        {},
        mark(row.color),
        " ",
        t("kind." + row.key),
        h("small", { class: "long" }, t("help." + row.key)),
      ),
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
          {
            "data-reason": row.id === "FN" ? "fn" : row.key,
            "data-value": row.v,
            "data-score": levelText(R, st.level),
          },
          count(row.v),
        ),
        " ",
        h("small", {}, percent(row.v / sum, 0) + " %"),
      ),
    );
  };
  holder.replaceChildren(
    h("h3", {}, t("kinds.title")),
    ...rows.map(line),
    h("p", { class: "cap foot" }, t("kinds.foot")),
  );
  if (focused) holder.querySelector(`[data-kind="${focused}"]`)?.focus({ preventScroll: true });
}

function objectSizes({ X, R, st, sizes }, holder) {
  if (R.perImage) {
    holder.replaceChildren(
      h("h3", {}, t("sizes.per-image.title")),
      h("p", { class: "cap" }, t("sizes.per-image")),
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
  const told = bars.map((bar, i) => t("sizes.bar", { name: bar.label, found: found[i], all: all[i] }));
  const label = t("sizes.label", { list: told.join("; ") });
  holder.replaceChildren(
    h("h3", {}, t("sizes.title")),
    legend(["var(--tp)", t("found")], ["var(--fn)", t("missed")]),
    columnPlot(label, bars),
    h("p", { class: "cap" }, t("sizes.foot")),
  );
}
