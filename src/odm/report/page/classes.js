// The table of classes of an evaluation.

function classTable({ X, R, st, redraw, counts }) {
  const hasAp = R.rows.some((row) => isNumber(row.ap));
  const averaged = Boolean(R.ious?.averaged); // then AP is of no single IoU
  const constant = !R.ious || averaged;
  const apOf = (row) => {
    if (!constant && !counts.own()) return apAt(row);
    return row.i < 0 ? R.ap : R.rows[row.i].ap;
  };
  // At the IoU of the slider.
  const apAt = (row) => (row.i < 0 ? mean(R.rows.map((_, i) => counts.apOf(i))) : counts.apOf(row.i));
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
    { key: "name", label: t("column.class"), text: true, value: (row) => row.name },
    { ...number("gt"), label: t("column.objects") },
    {
      key: "ap",
      get label() {
        return constant || counts.own() ? t("column.ap") : t("column.ap-at", { iou: shownIou(R, st) });
      },
      about: t("metric.ap"),
      value: apOf,
      cell: (row) => [percent(apOf(row)), shareBar(apOf(row))],
      data: (row) => ({ "data-key": row.i < 0 ? null : "ap", "data-value": apOf(row) }),
    },
    {
      key: "ap-at",
      get label() {
        return t("column.ap-at", { iou: shownIou(R, st) });
      },
      about: t("metric.ap-at"),
      value: apAt,
      cell: (row) => percent(apAt(row)),
      data: (row) => ({ "data-key": "ap-at", "data-value": apAt(row), "data-iou": shownIou(R, st) }),
    },
    { ...number("precision"), label: t("precision"), about: t("metric.precision") },
    { ...number("recall"), label: t("recall"), about: t("metric.recall") },
    { ...number("f1"), label: t("f1"), about: t("metric.f1") },
    { ...number("tp"), label: t("column.tp"), about: t("hint.tp") },
    { ...number("fp"), label: t("column.fp"), about: t("hint.fp") },
    { ...number("fn"), label: t("column.fn"), about: t("hint.fn") },
    { key: "mix", label: t("column.mix"), fixed: true, class: "l", cell: (row) => mix(row) },
  ].filter((column) => (column.key === "ap" ? hasAp : column.key !== "ap-at" || (hasAp && averaged)));
  const table = sortedTable({
    caption: t("classes.caption"),
    columns,
    order: st.order,
    onSort: () => list.draw(),
  });
  const chosen = (row) => row.i === st.category;
  const list = classRows({ table, st, few: FEW_CLASSES, rows: counted, chosen, line });
  section("classes", t("classes.title"), t("classes.hint"), list.parts);

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

  function counted() {
    const rows = R.rows.map((row, i) => ({ i, name: row.class, ...counts.counts(st.level, i) }));
    const many = rows.length > FEW_CLASSES + 5;
    const most = Math.max(1, ...rows.map((row) => row.tp + row.fp + row.fn));
    for (const row of rows) row.scale = many ? row.tp + row.fp + row.fn : most;
    return rows;
  }

  function line(row) {
    const on = row.i === st.category ? "on" : null;
    return h("tr", { role: "row", class: on, "data-class": row.name }, nameCell(row), table.cells(row));
  }

  return () => {
    list.update();
    const sum = { i: -1, ...counts.counts(st.level) };
    table.footer.replaceChildren(
      h("tr", { role: "row" }, h("th", { scope: "row", role: "rowheader" }, t("all")), table.cells(sum)),
    );
  };
}

function mean(values) {
  const defined = values.filter(isNumber);
  return defined.length ? defined.reduce((a, b) => a + b, 0) / defined.length : null;
}

function mix(row) {
  if (!row.scale) return null;
  const width = 150 / row.scale;
  const label = t("mix", row);
  const part = (key) =>
    row[key] ? h("i", { class: "c-" + key, css: { width: Math.max(1, row[key] * width) + "px" } }) : null;
  return h("span", { class: "sbar", role: "img", "aria-label": label }, ["tp", "fp", "fn"].map(part));
}
