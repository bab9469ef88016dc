// The labels that confident detections dispute, most suspicious first: pictures, reasons, and the names of the images.

const FIRST_REVIEWED = 12;

function reviewReason(row) {
  const score = isNumber(row.score) ? row.score.toFixed(2) : "–";
  const iou = isNumber(row.iou) ? (Math.floor(row.iou * 100) / 100).toFixed(2) : "–"; // stays below the threshold
  return phrase("review." + row.kind, {
    name: nameOf(row.class, 30),
    other: row.other === null ? "–" : nameOf(row.other, 30),
    score,
    iou,
  });
}

function reviewCard({ X, sources, openImage }, row) {
  const box = { key: "", kind: row.isLabel ? "FN" : "FP", box: row.box };
  const picture = X.pictures[row.image];
  const address = pictureAddress(X, sources[row.image]);
  const image = address && h("img", { src: address, alt: "", decoding: "async", loading: "lazy" });
  const pane = h(
    "span",
    { class: "pane" },
    image || h("span", { class: "nopic" }, picture?.[3] || t("no-picture")),
    picture ? drawBoxes(picture, [box], () => false) : null,
  );
  return h(
    "li",
    {},
    h(
      "button",
      {
        class: "suspect",
        "data-review": row.kind,
        disabled: !picture,
        on: { click: () => openImage(row.name) },
      },
      h("span", { class: "pic" }, pane),
      h("span", { class: "why" }, reviewReason(row)),
      h("span", { class: "cap2" }, h("span", { class: "nm" }, nameOf(row.name, 44))),
    ),
  );
}

function review(context) {
  const { count: n, least, names, rows } = context.R.review;
  if (!n) return null;
  const cards = h("ul", { class: "gal" });
  const done = h("span", { class: "cap", role: "status" });
  const button = (name, run) => {
    const about = t("review." + name + ".about");
    const attributes = { class: "btn", "data-review-take": name, "data-tip": about };
    return h("button", { ...attributes, on: { click: run } }, t("take." + name));
  };
  const show = (from, to) => cards.append(...rows.slice(from, to).map((row) => reviewCard(context, row)));
  const more = h("button", { class: "btn", "data-review-take": "more" });
  more.textContent = t("show-more", { some: Math.max(0, rows.length - FIRST_REVIEWED), n });
  more.addEventListener("click", () => {
    show(FIRST_REVIEWED);
    more.remove();
    cards.children[FIRST_REVIEWED].firstChild.focus();
  });
  show(0, FIRST_REVIEWED);
  section(
    "review",
    t("review.title"),
    t("review.hint", { n, share: percent(least, 0) + " %" }),
    cards,
    h("div", { class: "more" }, rows.length > FIRST_REVIEWED ? more : null),
    h(
      "div",
      { class: "take" },
      h("span", { class: "cap" }, t("review.take", { n: names.length })),
      button("copy", () =>
        copy(names.join("\n")).then(() => {
          done.textContent = t("take.copied", { n: names.length });
        }),
      ),
      button("list", () => {
        save("review.txt", "text/plain", names.join("\n") + "\n");
        done.textContent = t("take.saved", { n: names.length });
      }),
      done,
    ),
  );
  return null;
}
