// How a box is drawn: on cards and in the viewer. Another shape of an object is drawn here, and nowhere else.

const RANK = { IG: 0, GT: 1, OT: 1, TP: 2, FN: 3, FP: 4 };

// A box is {key, kind, box, label, score, why}; `color` {stroke, dash} is that of its class, where classes have one.
function drawBox(box, dim, height) {
  const [x0, y0, x1, y1] = box.box;
  const at = {
    x: Math.min(x0, x1),
    y: Math.min(y0, y1),
    width: Math.max(1, Math.abs(x1 - x0)),
    height: Math.max(1, Math.abs(y1 - y0)),
  };
  const own = box.color && { stroke: box.color.stroke, "stroke-dasharray": box.color.dash };
  const shaped = drawing.shapes && (box.shape || box.points);
  const edges = [
    s("rect", { class: "b halo", ...at }),
    s("rect", { class: "b " + box.kind, ...at, css: own }),
  ];
  return s(
    "g",
    { class: "bb" + (dim ? " dim" : ""), "data-box": box.key },
    shaped ? drawShape(box, height) : null,
    shaped && !drawing.boxes ? null : edges,
  );
}

// The boxes of an image, those that matter most on top; `dimmed` says which stand back.
function drawBoxes([, width, height], boxes, dimmed) {
  const svg = s("svg", {
    viewBox: `0 0 ${width} ${height}`,
    preserveAspectRatio: "xMidYMid meet",
    "aria-hidden": "true",
  });
  const ordered = boxes.slice().sort((a, b) => RANK[a.kind] - RANK[b.kind]);
  for (const box of ordered) svg.append(drawBox(box, dimmed(box), height));
  return svg;
}

const boxText = (box) => box.label + (isNumber(box.score) ? " " + box.score.toFixed(2) : "");

const CARD = { width: 280, height: 187, sign: 6, line: 15, most: 7 }; // pixels of a card, and of its text, roughly

// Class and score of boxes on a card. They are placed in percent of the card, so that text keeps its size; what would
// lie on another label is left out.
function cardLabels([, width, height], boxes) {
  const scale = Math.min(CARD.width / width, CARD.height / height);
  const [edge, top] = [(CARD.width - width * scale) / 2, (CARD.height - height * scale) / 2];
  const placed = [];
  const labels = [];
  for (const box of boxes.slice().sort((a, b) => RANK[b.kind] - RANK[a.kind])) {
    if (labels.length === CARD.most) break;
    const text = boxText(box);
    const [x0, y0, x1] = [Math.min(box.box[0], box.box[2]), Math.min(box.box[1], box.box[3]), box.box[2]];
    if ((x1 - x0) * scale < 8) continue;
    const room = Math.min(CARD.width, text.length * CARD.sign + 8);
    const x = Math.max(0, Math.min(edge + x0 * scale, CARD.width - room));
    const y = Math.max(0, top + y0 * scale - CARD.line);
    if (placed.some(([a, b, c]) => x < c && x + room > a && Math.abs(b - y) < CARD.line)) continue;
    placed.push([x, y, x + room]);
    const along = (100 * x) / Math.max(1, CARD.width - room); // of what the text leaves free, so that none of it is cut
    const left = { left: along + "%", transform: `translateX(${-along}%)` };
    const at = { ...left, top: (100 * y) / CARD.height + "%" };
    const own = box.color ? { background: box.color.stroke } : {};
    labels.push(h("span", { class: "lab " + box.kind, "aria-hidden": "true", css: { ...at, ...own } }, text));
  }
  return labels;
}
