// One image in the whole window: the picture left, its boxes right; zoom, pan, keys.

function makeViewer(X, gallery, options) {
  const dialog = byId("viewer");
  const pen = document.createElement("canvas").getContext("2d");
  pen.font = "600 12.5px " + getComputedStyle(document.body).fontFamily;
  let current = 0;
  let camera = null;
  let stages = [];

  // 5 and 6 show shapes and boxes, or what comes after the keys of more than four kinds.
  const drawingKeys = [1, 2].map((n) => String(Math.max(4, options.toggles.length) + n));

  const entry = () => gallery.state.list[current];

  function open(n) {
    current = n;
    camera = null;
    if (!dialog.open) dialog.showModal();
    paint();
  }

  function step(by) {
    const n = gallery.state.list.length;
    if (!n) return;
    current = (current + by + n) % n;
    camera = null;
    paint();
  }

  // The labels of boxes, as large as text whatever the zoom; those that would overlap are left out.
  function labels(stage, only) {
    const zoom = 1 / camera.zoom;
    stage.tags.replaceChildren();
    const wanted = (box) =>
      only === null ? gallery.visible(box) && options.labelled(box) : box.key === only;
    const boxes = stage.boxes.filter(wanted);
    if (only === null && stage.element.clientWidth < 600 && boxes.length > 6) return;
    const placed = [];
    for (const box of boxes) {
      const [x0, y0, , y1] = box.box;
      const text = boxText(box);
      const width = (pen.measureText(text).width + 9) * zoom;
      const below = box.kind === "FN" || box.kind === "GT";
      const y = below ? Math.min(y1 + 18 * zoom, stage.height) : Math.max(y0, 17 * zoom);
      const x = Math.max(0, Math.min(x0 - zoom, stage.width - width));
      if (placed.some(([a, b, c]) => x < c && x + width > a && Math.abs(b - y) < 16 * zoom)) continue;
      placed.push([x, y, x + width]);
      stage.tags.append(
        s("rect", {
          class: "tag " + box.kind,
          css: box.color && { fill: box.color.stroke },
          x,
          y: y - 17 * zoom,
          width,
          height: 16 * zoom,
          rx: 3 * zoom,
        }),
        s(
          "text",
          {
            x: x + 4.5 * zoom,
            y: y - 5 * zoom,
            css: { "font-size": 12.5 * zoom + "px" },
          },
          text,
        ),
      );
    }
  }

  function place() {
    for (const stage of stages) {
      stage.svg.style.setProperty("--iz", 1 / camera.zoom);
      stage.inner.style.transform = `translate(${camera.x}px,${camera.y}px) scale(${camera.zoom})`;
      labels(stage, null);
    }
  }

  function fit() {
    const { width, height } = stages[0];
    const room = stages[0].element.getBoundingClientRect();
    const zoom = Math.max(0.001, Math.min((room.width - 24) / width, (room.height - 24) / height));
    camera = { zoom, x: (room.width - width * zoom) / 2, y: (room.height - height * zoom) / 2, least: zoom };
    place();
  }

  function zoomBy(factor, x, y) {
    const room = stages[0].element.getBoundingClientRect();
    const [cx, cy] = [x === undefined ? room.width / 2 : x, y === undefined ? room.height / 2 : y];
    const zoom = Math.max(camera.least * 0.8, Math.min(camera.least * 20, camera.zoom * factor));
    camera.x = cx - ((cx - camera.x) * zoom) / camera.zoom;
    camera.y = cy - ((cy - camera.y) * zoom) / camera.zoom;
    camera.zoom = zoom;
    place();
  }

  function goTo(box) {
    const [x0, y0, x1, y1] = box.box;
    const room = stages[0].element.getBoundingClientRect();
    const wish = Math.min(room.width / Math.max(1, x1 - x0), room.height / Math.max(1, y1 - y0)) / 3;
    camera.zoom = Math.max(camera.least, Math.min(camera.least * 8, wish));
    camera.x = room.width / 2 - ((x0 + x1) / 2) * camera.zoom;
    camera.y = room.height / 2 - ((y0 + y1) / 2) * camera.zoom;
    place();
    point(box.key);
  }

  function point(key) {
    for (const stage of stages) {
      for (const g of stage.svg.querySelectorAll(".bb")) {
        g.classList.toggle("dim", key !== null && g.dataset.box !== key);
      }
      labels(stage, key);
    }
    for (const row of dialog.querySelectorAll(".bx")) row.classList.toggle("hot", row.dataset.box === key);
  }

  function makeStage(image, boxes, title) {
    const [name, width, height, remark] = X.pictures[image];
    const svg = gallery.overlay(image, boxes, false);
    const tags = s("g", {});
    svg.append(tags);
    const address = gallery.address(image);
    const img = address
      ? h("img", { src: address, alt: clean(name).slice(0, 200), draggable: "false" })
      : null;
    const inner = h("div", { class: "in", css: { width: width + "px", height: height + "px" } }, img, svg);
    const note = !address || remark ? h("span", { class: "remark" }, remark || t("no-picture")) : null;
    const element = h(
      "div",
      { class: "stage" },
      inner,
      note,
      title ? h("span", { class: "panename" }, title) : null,
    );
    handle(element);
    return { element, inner, svg, tags, boxes, width, height };
  }

  function handle(element) {
    const at = (event) => {
      const room = element.getBoundingClientRect();
      return [event.clientX - room.left, event.clientY - room.top];
    };
    const fingers = new Map();
    let gap = 0;
    const wheel = (event) => {
      event.preventDefault();
      zoomBy(Math.exp(-event.deltaY / 400), ...at(event));
    };
    element.addEventListener("wheel", wheel, { passive: false });
    element.addEventListener("pointerdown", (event) => {
      element.setPointerCapture(event.pointerId);
      fingers.set(event.pointerId, event);
      element.classList.add("drag");
    });
    element.addEventListener("pointermove", (event) => {
      const before = fingers.get(event.pointerId);
      if (!before) return;
      if (fingers.size === 1) {
        camera.x += event.clientX - before.clientX;
        camera.y += event.clientY - before.clientY;
        place();
      }
      fingers.set(event.pointerId, event);
      if (fingers.size !== 2) return;
      const [a, b] = [...fingers.values()].map(at);
      const distance = Math.hypot(a[0] - b[0], a[1] - b[1]);
      if (gap) zoomBy(distance / gap, (a[0] + b[0]) / 2, (a[1] + b[1]) / 2);
      gap = distance;
    });
    const lift = (event) => {
      fingers.delete(event.pointerId);
      gap = 0;
      element.classList.remove("drag");
    };
    element.addEventListener("pointerup", lift);
    element.addEventListener("pointercancel", lift);
    element.addEventListener("dblclick", fit);
  }

  function row(box, pane) {
    const over = {
      pointerenter: () => point(box.key),
      pointerleave: () => point(null),
      focus: () => point(box.key),
      blur: () => point(null),
      click: () => goTo(box),
    };
    const score = isNumber(box.score) ? box.score.toFixed(2) : "";
    return h(
      "li",
      {},
      h(
        "button",
        { class: "bx", "data-box": box.key, "data-focus": box.key, on: over },
        mark(box.kind),
        nameOf(box.name, 28),
        h("b", {}, score),
        h("small", {}, (pane ? pane + " · " : "") + box.why),
      ),
    );
  }

  const button = (text, label, focus, run) =>
    h(
      "button",
      { class: "btn " + focus, "data-focus": focus, "aria-label": label, on: { click: run } },
      text,
    );

  function bar(now) {
    const [name] = X.pictures[now.image];
    const toggles = options.toggles.map((kind) => {
      const made = gallery.toggle(kind, options.caption.includes(kind) ? now.numbers[kind] || 0 : undefined);
      made.dataset.focus = "toggle-" + kind;
      return made;
    });
    return h(
      "div",
      { class: "lbh" },
      h("h2", { id: "viewer-name" }, nameOf(name, 80)),
      h("span", { class: "pos" }, t("viewer.position", { at: current + 1, n: gallery.state.list.length })),
      toggles,
      gallery.drawingToggles(),
      button("←", t("viewer.previous"), "previous", () => step(-1)),
      button("→", t("viewer.next"), "next", () => step(1)),
      button("✕", t("viewer.close"), "close", () => dialog.close()),
    );
  }

  function help(now) {
    const [, width, height] = X.pictures[now.image];
    const key = (...keys) => keys.map((k) => [h("kbd", {}, k), " "]);
    const kinds = options.toggles.map((kind) => gallery.nameOfKind(kind).toLowerCase()).join(", ");
    const size = t("viewer.size", { width: String(width), height: String(height) });
    return h(
      "div",
      { class: "lbf" },
      h("span", {}, key("←", "→"), t("viewer.images")),
      h("span", {}, key("+", "−", "0"), t("viewer.zoom")),
      h("span", {}, key(...options.toggles.map((_, i) => String(i + 1))), kinds),
      options.shaped
        ? h("span", {}, key(...drawingKeys), [t("draw.shapes"), t("draw.boxes")].join(", ").toLowerCase())
        : null,
      h("span", {}, key("Esc"), t("viewer.back")),
      h("span", {}, [size, options.status?.()].filter(Boolean).join(" · ")),
    );
  }

  function paint() {
    if (!gallery.state.list.length) {
      dialog.close();
      return;
    }
    current = Math.min(current, gallery.state.list.length - 1);
    const now = entry();
    const focused = document.activeElement?.dataset?.focus || null;
    stages = now.panes.map((boxes, i) => makeStage(now.image, boxes, options.paneNames?.[i]));
    const rows = now.panes.flatMap((boxes, i) =>
      boxes
        .filter((box) => gallery.visible(box))
        .sort((a, b) => RANK[b.kind] - RANK[a.kind] || (b.score || 0) - (a.score || 0))
        .map((box) => row(box, options.paneNames?.[i])),
    );
    const extra = options.details?.(now.image);
    dialog.replaceChildren(
      h(
        "div",
        { class: "lb" },
        bar(now),
        h(
          "div",
          { class: "stages" },
          stages.map((stage) => stage.element),
        ),
        h(
          "div",
          { class: "side", tabindex: "0", role: "region", "aria-label": t("viewer.boxes") },
          extra,
          h("ol", {}, rows),
        ),
        help(now),
      ),
    );
    if (camera && focused) place();
    else fit();
    const again = focused && dialog.querySelector(`[data-focus="${CSS.escape(focused)}"]`);
    (again || dialog.querySelector('[data-focus="next"]')).focus({ preventScroll: true });
  }

  dialog.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const kind = options.toggles[Number(event.key) - 1];
    if (event.key === "ArrowRight" || event.key === "j") step(1);
    else if (event.key === "ArrowLeft" || event.key === "k") step(-1);
    else if (event.key === "+" || event.key === "=") zoomBy(1.4);
    else if (event.key === "-") zoomBy(1 / 1.4);
    else if (event.key === "0") fit();
    else if (options.shaped && drawingKeys.includes(event.key))
      dialog.querySelector(`[data-drawing="${event.key === drawingKeys[0] ? "shapes" : "boxes"}"]`).click();
    else if (kind) dialog.querySelector(`[data-toggle="${kind}"]`).click();
    else return;
    event.preventDefault();
  });
  dialog.addEventListener("close", () => {
    while (gallery.state.cards <= current) gallery.state.cards += CARDS;
    gallery.draw();
    const card = gallery.cards.children[current];
    if (!card) return;
    card.firstChild.focus({ preventScroll: true });
    card.scrollIntoView({ block: "nearest" });
  });
  addEventListener("resize", () => {
    if (dialog.open) fit();
  });
  return { open, paint };
}
