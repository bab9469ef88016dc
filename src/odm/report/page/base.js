// What all pages share: making elements, showing text and numbers, the head, sections and tables.

const byId = (id) => document.getElementById(id);

function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes || {})) {
    if (value === undefined || value === null || value === false) continue;
    if (name === "on") for (const [event, run] of Object.entries(value)) element.addEventListener(event, run);
    else if (name === "css") for (const [key, v] of Object.entries(value)) element.style.setProperty(key, v);
    else element.setAttribute(name, value === true ? "" : value);
  }
  for (const child of children.flat(9)) {
    if (child !== null && child !== undefined && child !== false) element.append(child);
  }
  return element;
}

const h = (tag, attributes, ...children) => fill(document.createElement(tag), attributes, children);
const s = (tag, attributes, ...children) =>
  fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);

// In a frame of a notebook the page has no address of its own, so links within it are followed here.
const ADDRESS_AT_REST = 100;
const FRAMED = location.href.startsWith("about:");
let address = 0;
// When a slider rests: it takes a browser up to 50 ms, and some allow only a hundred changes in half a minute.
function keepInAddress(text) {
  clearTimeout(address);
  const keep = () =>
    history.replaceState(null, "", text ? "#" + text : location.pathname + location.search);
  if (!FRAMED) address = setTimeout(keep, ADDRESS_AT_REST);
}
if (FRAMED) {
  document.addEventListener("click", (event) => {
    const link = event.target.closest("a[href^='#']");
    if (!link) return;
    event.preventDefault();
    byId(link.hash.slice(1))?.scrollIntoView();
  });
}

// ---- words: what a reader sees stands in words/LANGUAGE.json, as text with {places}, or as one text for each
// plural form of the language, which the number {n} decides.

// The language that the address of the page names, or the first of the reader's that is there.
const LANGUAGE = [new URLSearchParams(location.search).get("language"), ...navigator.languages]
  .map((name) => String(name).split("-")[0])
  .concat(Object.keys(LANGUAGES))
  .find((name) => Object.hasOwn(LANGUAGES, name));
const FORMS = new Intl.PluralRules(LANGUAGE);

// The text of a key, with values in its places: numbers are grouped, and elements may stand there too.
function phrase(key, values) {
  const found = LANGUAGES[LANGUAGE][key];
  const text = typeof found === "string" ? found : found[FORMS.select(values.n)];
  const shown = (v) => (typeof v === "number" ? count(v) : v);
  return text.split(/\{(\w+)\}/).map((part, i) => (i % 2 ? shown(values[part]) : part));
}
const t = (key, values = {}) => phrase(key, values).join("");
const hasText = (key) => key in LANGUAGES[LANGUAGE];

// A text that Python leaves to be put into words: plain, or [key, {place: text}].
const told = (said) =>
  typeof said === "string"
    ? said
    : t(said[0], Object.fromEntries(Object.entries(said[1]).map(([place, value]) => [place, told(value)])));

// ---- text and numbers

const isNumber = (v) => typeof v === "number" && isFinite(v);
const percent = (v, digits = 1) => (isNumber(v) ? (100 * v).toFixed(digits) : "–");
const withUnit = (v, digits = 1) => (isNumber(v) ? percent(v, digits) + " %" : "–");
const count = (v) => (isNumber(v) ? v.toLocaleString("en-US").replace(/,/g, "\u202f") : "–");

function compact(v) {
  if (v < 10000) return String(v);
  return v < 999500 ? (v / 1000).toPrecision(3) + "k" : (v / 1e6).toPrecision(3) + "M";
}

// Names come from files: what could hide or reorder text is shown as an escape, and each name is isolated.
const UNSAFE =
  /[\u0000-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]/g;
const clean = (text) =>
  String(text).replace(UNSAFE, (c) => "\\u" + c.charCodeAt(0).toString(16).padStart(4, "0"));

function short(text, most = 60) {
  const signs = Array.from(clean(text));
  return signs.length > most ? signs.slice(0, most - 1).join("") + "…" : signs.join("");
}

const nameOf = (text, most = 60) =>
  h("bdi", { title: clean(text).length > most ? clean(text).slice(0, 1000) : null }, short(text, most));

const mark = (kind) => h("span", { class: "mk " + kind.toLowerCase(), "aria-hidden": "true" });

// A word that is explained where it is pointed at or reached with Tab.
const explain = (label, text) =>
  text ? h("button", { type: "button", class: "ex", "data-tip": text }, label) : label;

// One bubble shows what `data-tip` of an element says; Escape hides it.
function showTips() {
  const tip = h("div", { id: "tip", role: "tooltip", hidden: true });
  document.body.append(tip);
  let on = null;
  const hide = () => {
    on?.removeAttribute("aria-describedby");
    on = null;
    tip.hidden = true;
  };
  const show = (event) => {
    const target = event.target.closest?.("[data-tip]");
    if (target === on) return;
    hide();
    if (!target) return;
    on = target;
    tip.textContent = target.dataset.tip;
    tip.hidden = false;
    target.setAttribute("aria-describedby", "tip");
    const [at, own] = [target.getBoundingClientRect(), tip.getBoundingClientRect()];
    const left = Math.min(
      at.left + at.width / 2 - own.width / 2,
      document.documentElement.clientWidth - own.width - 8,
    );
    const above = at.top - own.height - 8;
    tip.style.left = Math.max(8, left) + "px";
    tip.style.top = (above > 0 ? above : at.bottom + 8) + "px";
  };
  document.addEventListener("pointerover", show);
  document.addEventListener("focusin", show);
  document.addEventListener("focusout", hide);
  document.addEventListener("scroll", hide, { passive: true });
  document.addEventListener("keydown", (event) => event.key === "Escape" && hide());
}

let speech = 0;
function say(text) {
  clearTimeout(speech);
  speech = setTimeout(() => {
    byId("live").textContent = text;
  }, 400);
}

// ---- data

async function unpack(text) {
  const bytes = Uint8Array.from(atob(text.trim()), (c) => c.charCodeAt(0));
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("deflate"));
  return JSON.parse(await new Response(stream).text());
}

// A sparse table as [places in the flat array, numbers].
function sparse(table) {
  const at = new Float64Array(table.at.length);
  let place = 0;
  table.at.forEach((step, i) => {
    place += step;
    at[i] = place;
  });
  return [at, table.n];
}

// ---- the parts of a page

function head(X, eyebrow, ...about) {
  fill(byId("head"), {}, [
    h("p", { class: "eyebrow" }, eyebrow),
    h("h1", {}, nameOf(told(X.title), 90)),
    about,
    doubts(X.doubts),
    readingNotes(X),
  ]);
}

// How numbers are defined: in full on a wide screen, folded on a phone.
function definitionChips(parts) {
  const list = h(
    "ul",
    { class: "def", "aria-label": t("definitions") },
    parts.map((part) => h("li", {}, part)),
  );
  const folded = h("details", { class: "defs" }, h("summary", {}, t("definitions")), list);
  folded.open = innerWidth > 640;
  return folded;
}

function doubts(list) {
  if (!list.length) return null;
  return h(
    "div",
    { class: "doubt", role: "note" },
    h("strong", {}, t("doubts", { n: list.length })),
    h(
      "ul",
      {},
      list.map((d) => h("li", {}, clean(d.text), " ", h("code", {}, `${d.code} ${clean(d.place)}`))),
    ),
  );
}

function readingNotes(X) {
  if (!X.notes.length && !X.warnings.length) return null;
  const parts = [];
  if (X.notes.length) parts.push(t("notes", { n: X.notes.length }));
  if (X.warningCount) parts.push(t("warnings", { n: X.warningCount }));
  const more = X.warningCount - X.warnings.length;
  return h(
    "details",
    { class: "notes" },
    h(
      "summary",
      {},
      t("from-reading", { what: parts.length > 1 ? t("and", { a: parts[0], b: parts[1] }) : parts[0] }),
    ),
    h(
      "ul",
      {},
      X.notes.map((note) => h("li", {}, clean(note))),
      X.warnings.map((w) => h("li", {}, clean(w.text), " ", h("code", {}, `${w.code} ${clean(w.place)}`))),
      more > 0 ? h("li", {}, t("and-more", { n: more })) : null,
    ),
  );
}

function section(id, title, hint, ...children) {
  const heading = h(
    "div",
    { class: "sh" },
    h("h2", { id: id + "-h" }, title),
    hint ? h("p", {}, hint) : null,
  );
  const made = h("section", { id, "aria-labelledby": id + "-h" }, heading, children);
  byId("main").append(made);
  return made;
}

function links(list) {
  const go = (id) => (event) => {
    event.preventDefault();
    byId(id).scrollIntoView();
    const heading = byId(id).querySelector("h1, h2"); // from where Tab goes on, and what is read out
    heading.tabIndex = -1;
    heading.focus({ preventScroll: true });
  };
  return h(
    "nav",
    { "aria-label": t("sections") },
    list.map(([id, text]) => h("a", { href: "#" + id, on: { click: go(id) } }, text)),
    h("span", { class: "sp" }),
  );
}

function foot(X, what) {
  const date = X.made ? t("made-on", { date: X.made }) : "";
  const sources = X.sources.map((name, i) => [t(i ? "made-and" : "made-from"), nameOf(name)]);
  const others = Object.keys(LANGUAGES).filter((name) => name !== LANGUAGE);
  const link = (name) => h("a", { href: "?language=" + name, lang: name }, LANGUAGES[name].language);
  byId("foot").append(
    h("p", {}, phrase("made-by", { version: X.odm, date, sources, what })),
    others.length ? h("p", {}, others.map(link)) : "",
  );
}

// A table that can be sorted by its columns. A column is {key, label, text?, cell(row), value(row)}.
function sortedTable({ caption, columns, order, onSort, className = "classes" }) {
  const header = h("tr", { role: "row" });
  const body = h("tbody", { role: "rowgroup" });
  const footer = h("tfoot", { role: "rowgroup" });
  for (const column of columns) {
    const sort = () => {
      order.direction = order.key === column.key ? -order.direction : column.text ? 1 : -1;
      order.key = column.key;
      onSort();
    };
    const label = column.fixed
      ? column.label
      : h("button", { on: { click: sort }, "data-tip": column.about }, column.label);
    header.append(
      h("th", { scope: "col", role: "columnheader", "data-column": column.key, class: column.class }, label),
    );
  }
  const element = h(
    "table",
    { class: className, role: "table" },
    h("caption", { class: "sr" }, caption),
    h("thead", { role: "rowgroup" }, header),
    body,
    footer,
  );
  const compare = (a, b) => {
    const column = columns.find((c) => c.key === order.key);
    const [x, y] = [column.value(a), column.value(b)];
    if (column.text) return order.direction * String(x).localeCompare(String(y));
    if (!isNumber(x) || !isNumber(y)) return isNumber(y) - isNumber(x) || a.i - b.i; // undefined comes last
    return order.direction * (x - y) || a.i - b.i;
  };
  const showOrder = () => {
    for (const th of header.children) {
      const on = th.dataset.column === order.key;
      if (on) th.setAttribute("aria-sort", order.direction > 0 ? "ascending" : "descending");
      else th.removeAttribute("aria-sort");
      const button = th.querySelector("button");
      const arrow = on ? (order.direction > 0 ? " ↑" : " ↓") : "";
      if (button) button.textContent = columns.find((c) => c.key === th.dataset.column).label + arrow;
    }
  };
  const cells = (row) =>
    columns.slice(1).map((c) => {
      const attributes = { role: "cell", "data-label": c.label, class: c.class };
      if (c.data) Object.assign(attributes, c.data(row));
      return h("td", attributes, c.cell(row));
    });
  return { element, body, footer, compare, showOrder, cells };
}

const LONG_TABLE = 40;
const LATER_TABLE = 120;
const FOUND_ROWS = 50;

// The rows of a table of classes: of many, some until all are asked for or a name is searched. `few` is how many,
// `rows()` gives them as {i, name, ...}, `chosen(row)` says which is always shown, `line(row)` makes the tr of one;
// `st` is {all, text}. `prepare(rows)` sees those that are about to be drawn.
function classRows({ table, st, few, rows, chosen, line, prepare }) {
  const total = rows().length;
  const flip = () => {
    st.all = !st.all;
    draw();
  };
  const type = (event) => {
    st.text = event.target.value;
    draw();
  };
  const all = h("button", { class: "btn", on: { click: flip } });
  const found = h("span", { class: "cap", role: "status" });
  const search = h("input", {
    type: "search",
    placeholder: t("class-name"),
    "aria-label": t("class-name-contains"),
    value: st.text || "",
    on: { input: type },
  });
  const none = h("p", { class: "empty", hidden: true }, t("no-class"));
  let later = 0;

  function draw() {
    clearTimeout(later);
    const text = (st.text || "").toLowerCase();
    const list = rows().filter((row) => !text || row.name.toLowerCase().includes(text));
    list.sort(table.compare);
    const most = text ? FOUND_ROWS : few;
    const many = list.length > most + 5;
    const cut = many && !st.all ? list.filter((row, n) => n < most || chosen(row)) : list;
    prepare?.(cut);
    all.hidden = !many;
    all.textContent = st.all ? t("show-few-classes", { n: most }) : t("show-all-classes", { n: list.length });
    found.textContent = text ? t("of-classes", { found: list.length, n: total }) : "";
    none.hidden = list.length > 0;
    const focused = document.activeElement?.closest?.("tr[data-class]")?.dataset.class;
    table.body.replaceChildren(...cut.map(line));
    table.showOrder();
    if (focused === undefined) return;
    const again = [...table.body.children].find((tr) => tr.dataset.class === focused);
    again?.querySelector("button")?.focus({ preventScroll: true });
  }

  // What the slider calls: a long table follows when it rests, so that it does not hold up the rest.
  function update() {
    clearTimeout(later);
    if (table.body.children.length > LONG_TABLE) later = setTimeout(draw, LATER_TABLE);
    else draw();
  }
  const tools = total > few + 5 ? h("div", { class: "tools" }, search, found) : null;
  const parts = [
    tools,
    h("div", { class: "card scroll" }, table.element, none),
    h("div", { class: "more" }, all),
  ];
  return { parts, draw, update };
}

const shareBar = (v) =>
  h(
    "span",
    { class: "ibar", "aria-hidden": "true" },
    h("i", { css: { width: Math.max(0, Math.min(1, v || 0)) * 100 + "%" } }),
  );

function select(label, options, onChange) {
  const element = h(
    "select",
    { "aria-label": label, on: { change: (event) => onChange(event.target.value) } },
    options.map(([value, text]) => h("option", { value }, text)),
  );
  return element;
}
