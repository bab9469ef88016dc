// What is wrong in a dataset: the codes, the places, and the faulty boxes on their pictures.

const ISSUES_SHOWN = 50;

function drawPage(X, sources) {
  const none = !X.errors && !X.warningTotal;
  const counted = {
    errors: t("errors", { n: X.errors }),
    warnings: t("warnings", { n: X.warningTotal }),
    images: t("images", { n: X.imageCount }),
    boxes: t("boxes", { n: X.boxCount }),
  };
  head(X, t("page.validation"), h("p", { class: "cap" }, t(none ? "check.none" : "check.some", counted)));
  foot(
    X,
    X.pictures.length < X.imageCount
      ? t("check.shown", { shown: X.pictures.length, n: X.imageCount })
      : t("check.all-shown"),
  );
  const st = { code: "", more: ISSUES_SHOWN, order: { key: "n", direction: -1 } };
  for (const part of location.hash.slice(1).split("&")) {
    const [key, value] = part.split("=");
    if (key === "code" && X.codes.some((row) => row.code === value)) st.code = value;
  }
  const parts = [];
  let gallery = null;
  const redraw = makeRedraw(parts, () => gallery);
  parts.push(validationBar(X, st, redraw));
  parts.push(codeTable(X, st, redraw));
  parts.push(places(X, st));
  gallery = validationGallery(X, st, sources, redraw);
  parts.forEach((part) => part());
  gallery.draw();
}

function validationBar(X, st, redraw) {
  const clear = h("button", {
    class: "btn clear",
    id: "clear",
    on: {
      click: () => {
        st.code = "";
        redraw();
      },
    },
  });
  const nav = links([
    ["codes", t("section.codes")],
    ["places", t("section.places")],
    ["images", t("section.images")],
  ]);
  nav.append(clear);
  byId("barin").append(nav);
  return () => {
    clear.hidden = !st.code;
    clear.textContent = st.code + "  ✕";
    keepInAddress(st.code ? "code=" + st.code : "");
  };
}

const severityMark = (severity) => mark(severity === "error" ? "FP" : "FN");

function codeTable(X, st, redraw) {
  const table = sortedTable({
    caption: t("codes.caption"),
    columns: [
      { key: "code", label: t("column.code"), text: true, value: (row) => row.code },
      {
        key: "severity",
        label: t("column.severity"),
        text: true,
        value: (row) => row.severity,
        cell: (row) => [severityMark(row.severity), " ", t("severity." + row.severity)],
      },
      {
        key: "n",
        label: t("column.found"),
        value: (row) => row.n,
        cell: (row) => count(row.n),
        data: (row) => ({ "data-key": row.code, "data-value": row.n }),
      },
      { key: "why", label: t("column.why"), fixed: true, class: "wrapped", cell: (row) => row.why },
    ],
    order: st.order,
    onSort: draw,
  });
  const body = X.codes.length
    ? h("div", { class: "card scroll" }, table.element)
    : h("p", { class: "card empty" }, t("nothing-wrong"));
  section("codes", t("codes.title"), X.codes.length ? t("codes.hint") : "", body);
  function draw() {
    const rows = X.codes.map((row, i) => ({ i, ...row })).sort(table.compare);
    const line = (row) => {
      const choose = () => {
        st.code = st.code === row.code ? "" : row.code;
        redraw();
      };
      const pressed = String(st.code === row.code);
      const button = h("button", { class: "lk", "aria-pressed": pressed, on: { click: choose } }, row.code);
      return h(
        "tr",
        { role: "row", class: st.code === row.code ? "on" : null, "data-code": row.code },
        h("th", { scope: "row", role: "rowheader" }, button),
        table.cells(row),
      );
    };
    const focused = document.activeElement?.closest?.("tr[data-code]")?.dataset.code;
    table.body.replaceChildren(...rows.map(line));
    table.showOrder();
    if (focused)
      table.body.querySelector(`[data-code="${CSS.escape(focused)}"] button`)?.focus({ preventScroll: true });
  }
  return draw;
}

function places(X, st) {
  const list = h("ol", { class: "places card" });
  const more = h("button", {
    class: "btn",
    on: {
      click: () => {
        st.more += ISSUES_SHOWN;
        draw();
      },
    },
  });
  const none = h("p", { class: "card empty" }, t("places.none"));
  const total = X.errors + X.warningTotal;
  const part = t("places.part", { n: X.issues.length, all: total });
  const rest = h("p", { class: "cap foot" }, part);
  section("places", t("places.title"), "", list, none, rest, h("div", { class: "more" }, more));
  function draw() {
    const wanted = X.issues.filter((issue) => !st.code || issue.code === st.code);
    const line = (issue) =>
      h(
        "li",
        {},
        severityMark(issue.severity),
        h("code", {}, clean(issue.place)),
        h("span", {}, clean(issue.text)),
        h("code", { class: "cap" }, issue.code),
      );
    list.replaceChildren(...wanted.slice(0, st.more).map(line));
    list.hidden = !wanted.length;
    none.hidden = wanted.length > 0;
    more.hidden = wanted.length <= st.more;
    more.textContent = t("places.more", { n: wanted.length });
    rest.hidden = X.issues.length >= total || !more.hidden;
  }
  return draw;
}

function validationGallery(X, st, sources, redraw) {
  const byBox = new Map();
  const byImage = X.pictures.map(() => []);
  for (const issue of X.issues) {
    if (issue.image >= 0) byImage[issue.image].push(issue);
    if (issue.box < 0 || issue.image < 0) continue;
    const key = issue.side + "/" + issue.box;
    if (!byBox.has(key)) byBox.set(key, []);
    byBox.get(key).push(issue);
  }
  const lists = X.sides.map((side, n) => {
    const columns = side.boxes;
    return boxesByImage(X, columns, (i) => {
      const found = (byBox.get(n + "/" + i) || []).filter((issue) => !st.code || issue.code === st.code);
      const error = found.some((issue) => issue.severity === "error");
      const name = side.classes[columns.class[i]];
      const about = found.map((issue) => issue.code + ": " + clean(issue.text)).join(" · ");
      return {
        key: `b${n}-${i}`,
        kind: !found.length ? "OT" : error ? "FP" : "FN",
        found,
        box: columns.box.map((column) => column[i]),
        score: columns.score.length ? columns.score[i] : null,
        name,
        label: short(name, 22),
        ...shapeOf(columns, i, X.skeletons[name]),
        why:
          about ||
          t(side.kind === "det" ? "a-detection" : "an-annotation") +
            " · " +
            t("row", { row: String(columns.row[i]) }),
      };
    });
  });
  const boxes = (image) => lists.flatMap((list) => list(image));
  const issuesOf = (image) => byImage[image].filter((issue) => !st.code || issue.code === st.code);
  const weigh = (image) =>
    issuesOf(image).reduce((sum, issue) => sum + (issue.severity === "error" ? 1000 : 1), 0);
  const codes = select(
    t("select.code"),
    [["", t("select.all-problems")], ...X.codes.map((row) => [row.code, row.code])],
    (value) => {
      st.code = value;
      redraw();
    },
  );
  const facts = (image) => {
    const whole = issuesOf(image).filter((issue) => issue.box < 0);
    if (!whole.length) return null;
    return h(
      "ul",
      { class: "facts" },
      whole.map((issue) =>
        h("li", {}, severityMark(issue.severity), " ", clean(issue.text), " ", h("code", {}, issue.code)),
      ),
    );
  };
  return makeGallery(X, sources, {
    title: t("check.title"),
    hint: t("check.hint"),
    empty: t("check.empty"),
    panes: (image) => [boxes(image)],
    matches: (box) => box.found.length > 0,
    narrowed: () => Boolean(st.code),
    include: (image) => !st.code || issuesOf(image).length > 0,
    rank: (image) => [weigh(image)],
    orders: ["most-problems", "name"],
    filters: [codes],
    toggles: ["FP", "FN", "OT"],
    shaped: hasShapes(...X.sides.map((side) => side.boxes)),
    names: { FP: t("check.errors"), FN: t("check.warnings"), OT: t("check.others") },
    caption: ["FP", "FN", "OT"],
    shown: {},
    labelled: (box) => box.found.length > 0,
    details: facts,
    badge: (image) => {
      const n = issuesOf(image).filter((issue) => issue.box < 0).length;
      return n ? h("span", { class: "badge" }, t("problems-of-image", { n })) : null;
    },
    drawn: () => {
      codes.value = st.code;
    },
  });
}
