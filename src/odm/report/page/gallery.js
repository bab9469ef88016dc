// The images: cards with boxes drawn on them, filters, orders, and "show more".

const CARDS = 24;

// Where the picture of an image lies: beside the page, or in it; empty without one.
const pictureAddress = (X, source) => (source && !X.files ? "data:image/jpeg;base64," + source : source || "");

// `options`:
//   panes(image) -> lists of boxes, one list per pane; a box is {key, kind, box, label, score, why}
//   matches(box, image) -> whether it is what the filters ask for
//   narrowed() -> whether any filter is set: then the other boxes are dimmed
//   include(image, boxes) -> whether the image is listed; rank(image, boxes) -> its place, larger first
//   aside() -> a sentence about what is chosen
//   counted(box) -> whether the caption counts it
//   orders, filters, toggles, caption (kinds), hint, title, empty; columns: cards beside each other, if that is given
function makeGallery(X, sources, options) {
  const shown = options.shown;
  const nameOfKind = (kind) => options.names?.[kind] || t("box." + kind);
  const state = { order: options.orders[0], text: "", cards: CARDS, list: [] };
  const cards = h("ul", { class: "gal" });
  if (options.columns) cards.style.gridTemplateColumns = `repeat(${options.columns}, minmax(0, 1fr))`;
  const total = h("span", { class: "cap", id: "shown", role: "status" });
  const aside = h("p", { class: "cap", id: "aside" });
  const empty = h("p", { class: "card empty", hidden: true }, options.empty);
  const more = h("button", { class: "btn", on: { click: showMore } });
  const kept = new Map();

  const order = select(
    t("order"),
    options.orders.map((id) => [id, t("order." + id)]),
    (value) => {
      state.order = value;
      draw();
    },
  );
  const search = h("input", {
    type: "search",
    placeholder: t("file-name"),
    "aria-label": t("file-name-contains"),
    on: {
      input: (event) => {
        state.text = event.target.value.toLowerCase();
        draw();
      },
    },
  });

  function showMore() {
    const n = state.cards;
    state.cards += CARDS;
    draw();
    const next = cards.children[n];
    if (next) next.firstChild.focus();
  }

  const address = (image) => pictureAddress(X, sources[image]);

  function photo(image, pane) {
    const key = image + "/" + pane;
    if (!kept.has(key)) {
      const [, width, height] = X.pictures[image];
      kept.set(
        key,
        h("img", {
          src: address(image),
          alt: "",
          decoding: "async",
          loading: "lazy",
          width,
          height,
          draggable: "false",
        }),
      );
    }
    return kept.get(key);
  }

  // The boxes of an image that are to be seen: those switched on, and those that a filter asks for.
  function seen(image, boxes) {
    const narrowed = options.narrowed();
    return boxes.filter((box) => visible(box) || (narrowed && options.matches(box, image)));
  }

  function overlay(image, boxes, dimOthers) {
    const dimmed = (box) => dimOthers && box.kind !== "GT" && !options.matches(box, image);
    return drawBoxes(X.pictures[image], seen(image, boxes), dimmed);
  }

  function labels(image, boxes) {
    const wanted = (box) => options.labelled(box) && (!options.narrowed() || options.matches(box, image));
    return cardLabels(X.pictures[image], seen(image, boxes).filter(wanted));
  }

  const visible = (box) => shown[box.kind === "IG" ? "GT" : box.kind] !== false;

  function toggle(kind, n) {
    const flip = () => {
      shown[kind] = shown[kind] === false;
      for (const button of document.querySelectorAll(`[data-toggle="${kind}"]`)) {
        button.setAttribute("aria-pressed", String(shown[kind]));
      }
      draw();
      if (byId("viewer").open) view.paint();
    };
    return h(
      "button",
      {
        class: "chip tg",
        "aria-pressed": String(shown[kind] !== false),
        "data-toggle": kind,
        on: { click: flip },
      },
      mark(kind),
      h("span", { class: "tx" }, nameOfKind(kind)),
      n === undefined ? null : h("b", {}, n),
    );
  }

  // Shapes in place of boxes, and boxes beside them.
  function drawingToggle(what) {
    const flip = () => {
      drawing[what] = !drawing[what];
      for (const button of document.querySelectorAll(`[data-drawing="${what}"]`))
        button.setAttribute("aria-pressed", String(drawing[what]));
      draw();
      if (byId("viewer").open) view.paint();
    };
    const attributes = {
      class: "chip",
      "aria-pressed": String(drawing[what]),
      "data-drawing": what,
      "data-focus": what,
    };
    return h("button", { ...attributes, on: { click: flip } }, t("draw." + what));
  }
  const drawingToggles = () => (options.shaped ? ["shapes", "boxes"].map(drawingToggle) : []);

  function find() {
    const found = [];
    for (let image = 0; image < X.pictures.length; image++) {
      if (state.text && !X.pictures[image][0].toLowerCase().includes(state.text)) continue;
      const panes = options.panes(image);
      const boxes = panes.flat();
      if (!options.include(image, boxes)) continue;
      const numbers = {};
      const counted = options.counted ? boxes.filter(options.counted) : boxes;
      for (const box of counted) numbers[box.kind] = (numbers[box.kind] || 0) + 1;
      found.push({ image, panes, boxes, numbers, rank: options.rank(image, boxes, state.order) });
    }
    const byName = (a, b) =>
      X.pictures[a.image][0].localeCompare(X.pictures[b.image][0], undefined, { numeric: true });
    const byRank = (a, b) => {
      for (let i = 0; i < a.rank.length; i++) if (a.rank[i] !== b.rank[i]) return b.rank[i] - a.rank[i];
      return a.image - b.image;
    };
    return found.sort(state.order === "name" ? byName : byRank);
  }

  function card(entry, n) {
    const [name, , , remark] = X.pictures[entry.image];
    const pane = (boxes, i) =>
      h(
        "span",
        { class: "pane" },
        address(entry.image)
          ? photo(entry.image, i)
          : h("span", { class: "nopic" }, remark || t("no-picture")),
        overlay(entry.image, boxes, options.narrowed()),
        labels(entry.image, boxes),
      );
    const numbers = options.caption.map((kind) =>
      h(
        "span",
        { title: nameOfKind(kind).toLowerCase(), "data-key": options.keys?.[kind] },
        mark(kind),
        " ",
        h("b", {}, entry.numbers[kind] || 0),
        h("i", { class: "sr" }, ` ${nameOfKind(kind).toLowerCase()}, `),
      ),
    );
    return h(
      "li",
      {},
      h(
        "button",
        { class: "shot", "data-image": name, on: { click: () => view.open(n) } },
        h("span", { class: "pic" + (entry.panes.length > 1 ? " two" : "") }, entry.panes.map(pane)),
        h(
          "span",
          { class: "cap2" },
          h("span", { class: "nm" }, nameOf(name, 44)),
          options.badge?.(entry.image),
          numbers,
        ),
      ),
    );
  }

  function draw() {
    state.list = find();
    cards.replaceChildren(...state.list.slice(0, state.cards).map(card));
    more.hidden = state.list.length <= state.cards;
    const some = Math.min(CARDS, state.list.length - state.cards);
    more.textContent = t("show-more", { some, n: state.list.length });
    empty.hidden = state.list.length > 0;
    const part = X.pictures.length < X.imageCount ? t("of-data-set", { n: X.imageCount }) : "";
    const sum = (kind) => state.list.reduce((n, entry) => n + (entry.numbers[kind] || 0), 0);
    const sums = options.caption.map((kind) => `${nameOfKind(kind)} ${count(sum(kind))}`);
    const listed = t("of-images", { found: state.list.length, n: X.pictures.length }) + part;
    total.textContent = [listed, ...sums].join(" · ");
    aside.textContent = options.aside?.() || "";
    options.drawn?.();
  }

  // Opens one image, whatever the filters were.
  function openImage(name) {
    state.text = search.value = "";
    draw();
    const n = state.list.findIndex((entry) => X.pictures[entry.image][0] === name);
    if (n >= 0) view.open(n);
  }

  const chosen = (box, image) =>
    options.matches(box, image) || !(options.narrowed() || options.labelled(box));
  const gallery = {
    openImage,
    state,
    draw,
    overlay,
    toggle,
    address,
    visible,
    cards,
    nameOfKind,
    drawingToggles,
  };
  const view = makeViewer(X, gallery, options);
  section(
    "images",
    options.title,
    options.hint,
    h(
      "div",
      { class: "tools" },
      options.filters,
      order,
      search,
      options.toggles.map((kind) => toggle(kind)),
      drawingToggles(),
      total,
    ),
    aside,
    options.legend,
    cards,
    empty,
    h("div", { class: "more" }, more),
    selectionTools(X, () => state.list, chosen, options.paneNames),
  );
  return gallery;
}
